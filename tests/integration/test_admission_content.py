"""Prompts: what a policy and a model's limits refuse on their way through Kafka, and that no log ever has one."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from admission.policy import PolicyAnswer, PolicyText
from admission.settings import AdmissionLimits
from gpu_consumer.engine.process import EngineProcess
from gpu_consumer.engine.settings import EngineSettings
from schemas.catalogue import ConfigCatalogue
from schemas.config_file import ConfigFile
from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from streams.policies.loading import PolicySettings, load_policies
from streams.tokenizers import load_counters
from tests.admission import Seen, committed, drained, eventually, produce, request, running, small_world, work_of
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL
from tests.tiny import tiny_config

TENANT = "atelier"
CANARY = "zyxwvutcanary"  # one word, for a tokenizer puts blanks between words


@pytest.fixture
def terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "terms.txt"
    path.write_text("[gore]\nblood bath\n", encoding="utf-8")
    monkeypatch.setenv("KILN_ADMISSION_POLICY_LIST_FILE", str(path))


@pytest.mark.usefixtures("terms")
async def test_what_a_policy_or_a_limit_refuses_ends_as_a_rejection(
    kafka: KafkaSettings, catalogue: Catalogue, models: Path
) -> None:
    """Case ADM-07, through Kafka."""
    config = tiny_config(models, pool=POOL, name="sketch")
    wide = tiny_config(models, pool=POOL, name="wide", width=4096, height=8192)
    base = small_world(catalogue)
    configs = ConfigCatalogue(
        ConfigFile(name=each.name, channels={"stable": {1: 1.0}}, versions={1: each}) for each in (config, wide)
    )
    world = replace(
        base,
        configs=configs,
        limits=AdmissionLimits(prompt_tokens="refuse"),
        policies=load_policies(PolicySettings()),
        tokens=load_counters(models, configs),
    )
    records = [
        request(TENANT, "fine", "a red circle"),
        request(TENANT, "disguised", "a bl\u200bооd  BATH"),
        request(TENANT, "negative", "a circle", negative_prompt="Blood-Bath"),
        request(TENANT, "unseen", "\u200b\u2060\ufeff"),
        request(TENANT, "long", "a red circle " * 27),
        request(TENANT, "wide", "a red circle", config={"name": "wide"}),
    ]
    produce(kafka, catalogue.requests, [(TENANT.encode(), each) for each in records], partitioner="murmur2_random")
    async with running(kafka, world, "plain") as service:
        await drained(kafka, catalogue)
        answers = service.metrics.registry.get_sample_value
        counted = {
            answer: answers("kiln_admission_policy_answers_total", {"policy": "list", "answer": answer})
            for answer in ("passed", "refused", "failed")
        }
    assert counted == {"passed": 1, "refused": 2, "failed": None}
    rejected = await asyncio.to_thread(committed, kafka, catalogue.results, 2)
    found = {each["request_id"]: each for each in map(Seen.json, rejected)}
    assert {name: (each["code"], each["field"]) for name, each in found.items()} == {
        "disguised": ("policy_violation", "prompt"),
        "negative": ("policy_violation", "negative_prompt"),
        "unseen": ("invalid_request", "prompt"),
        "long": ("prompt_too_long", "prompt"),
        "wide": ("invalid_dimensions", "config"),
    }
    assert "81 tokens, and the model reads 75" in found["long"]["message"]
    assert [record.json()["request_id"] for _, record in work_of(kafka, catalogue)] == ["fine"]


class Waking:
    """A policy whose model takes a while to be there."""

    problem: str | None = "its model is not there yet"

    def judge(self, text: PolicyText) -> PolicyAnswer | None: ...


async def test_nothing_is_decided_while_a_policy_cannot_judge(kafka: KafkaSettings, catalogue: Catalogue) -> None:
    waking = Waking()
    world = replace(small_world(catalogue), policies={"waking": waking})
    produce(kafka, catalogue.requests, [(None, request(TENANT, "early"))])
    async with running(kafka, world, "plain") as service:
        what = "the content policy 'waking' cannot judge: its model is not there yet"
        await eventually(lambda: service.not_ready() == what, what="admission says what is missing")
        assert not await asyncio.to_thread(committed, kafka, catalogue.decisions, 2)
        waking.problem = None
        await drained(kafka, catalogue)
    (decision,) = await asyncio.to_thread(committed, kafka, catalogue.decisions, 2)
    assert decision.json()["verdict"] == "accepted"


@pytest.mark.usefixtures("terms")
async def test_no_prompt_is_in_a_log_at_info_nor_in_a_rejection(
    kafka: KafkaSettings,
    catalogue: Catalogue,
    models: Path,
    pool: GpuPool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Neither where it is drawn, nor where it is refused or no JSON, nor where the model leaves out its end: diffusers
    warns of that with the very words. The engine is a process of its own, whose output is ours."""
    caplog.set_level(logging.INFO)
    config = tiny_config(models, pool=POOL, name="sketch")
    configs = ConfigCatalogue([ConfigFile(name="sketch", channels={"stable": {1: 1.0}}, versions={1: config})])
    world = replace(small_world(catalogue), configs=configs, policies=load_policies(PolicySettings()))
    good = request(TENANT, "drawn", f"a red circle {CANARY}", negative_prompt=CANARY)
    records = [
        good,
        request(TENANT, "truncated", f"{CANARY} " * 60),
        request(TENANT, "refused", f"{CANARY} blood bath"),
        request(TENANT, "bad-seed", CANARY, seed=-1),
        request(TENANT, "nul", f"{CANARY}\0"),
        request(TENANT, "no-field", CANARY, prompts=CANARY),
        request(TENANT, "long", f"{CANARY} " * 1000),
        request(TENANT, "typed", CANARY, negative_prompt=[CANARY], deadline=CANARY, priority=CANARY),
        good.replace(b"drawn", b"nan").replace(b"{", b'{"seed": NaN, ', 1),
        good.replace(b"a red", b"a blue"),  # the same name with another payload
        good[:-5],
        b"\xff" + CANARY.encode(),
        f'"{CANARY}"'.encode(),
    ]
    produce(kafka, catalogue.requests, [(TENANT.encode(), each) for each in records], partitioner="murmur2_random")
    engine = EngineProcess(EngineSettings(models_directory=models, threads=1), [config])
    try:
        async with (
            running(kafka, world, "faust"),
            pool.consumer_over(engine, await engine.start()),
        ):
            results = await pool.wait_for_results(9)
            await drained(kafka, catalogue)
    finally:
        await engine.stop()
    statuses = {result.request_id: result.status for result in results}
    assert statuses == dict.fromkeys(statuses, "rejected") | {"drawn": "succeeded", "truncated": "succeeded"}
    dead = await asyncio.to_thread(committed, kafka, catalogue.dead_letters, 1)
    assert len(dead) == 4
    told = [
        *(record.getMessage() + str(record.exc_info) for record in caplog.records),
        *capfd.readouterr(),
        *(result.message for result in results if result.status == "rejected"),
        *(value.decode() for letter in dead for name, value in letter.headers),
    ]
    assert len(caplog.records) > 5, "something was logged"
    assert [text for text in told if CANARY in text] == []
