"""`kiln submit`, `results` and `lag` over a real broker, admission and a GPU consumer whose engine takes no time."""

import asyncio
import json
import sys
from hashlib import sha256
from pathlib import Path

from infra.planner.trace import read_trace
from schemas.catalogue import load_configs
from schemas.topics import Catalogue
from streams.kafka.settings import KafkaSettings
from tests.admission import eventually, produce, running, small_world
from tests.integration.gpu_pool import GpuPool
from tests.kafka import POOL
from tests.kiln import Kiln
from tests.unit.schemas.test_published import GOLDEN


async def test_pictures_are_asked_for_waited_for_saved_and_found_again(
    kiln: Kiln, kafka: KafkaSettings, catalogue: Catalogue, tmp_path: Path
) -> None:
    pool = GpuPool(kafka, catalogue, tmp_path / "store")
    produce(kafka, catalogue.results, [(b"x", b"no result of ours")])  # hides nobody's
    async with running(kafka, small_world(catalogue), "plain"), pool.consumer():
        wish = ("submit", "a kiln", "--config", "sketch", "--images", "2", "--seed", "7", "--request-id", "[/b]")
        done = await kiln(*wish, "--save", str(tmp_path / "pictures"))
        assert done.code == 0, done
        assert "me/[/b] succeeded: pictures 2, seed 7, config sketch@1" in done.out
        saved = sorted((tmp_path / "pictures").iterdir())

        lines = tmp_path / "lines"
        good, bad = ({"prompt": "one", "config": {"name": name}, "request_id": name} for name in ("painting", "none"))
        lines.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
        mixed = await kiln("submit", "--json-lines", str(lines), "--wait")
        assert mixed.code == 3, mixed
        assert "me/none rejected: there is no config" in mixed.out
        assert "not every request succeeded" in mixed.err

        again = await kiln.here(*wish, "--wait", "--timeout", "2")
        assert again.code == 1, "a repeat is silent"
        assert "an id that was sent before has ended already" in again.err

        found = await kiln.here("results", "--status", "succeeded", "--request-id", "[/b]", "--json")
        (event,) = [json.loads(line) for line in found.out.splitlines()]
        assert [artifact["sha256"] for artifact in event["artifacts"]] == [
            sha256(path.read_bytes()).hexdigest() for path in saved
        ]
        table = await kiln.here("results", "--limit", "10")
        assert table.code == 0, table
        assert all(word in table.out for word in ("[/b]", "painting", "unknown_config"))

        newest = await kiln.here("results", "--limit", "1", "--json")
        (event,) = [json.loads(line) for line in newest.out.splitlines()]
        assert event["request_id"] in {"painting", "none"}

        trace = tmp_path / "trace.csv"
        exported = await kiln.here("arrivals", str(trace), "--pool", POOL)
        assert f"{trace} has 2 requests; refused in that time, and not in it: 1." in exported.out, exported
        requests = read_trace(trace, load_configs(Path("infra/configs")), deadline_seconds=1.0)
        assert [(each.config.label, each.images, each.tenant) for each in requests] == [
            ("sketch@1", 2, "me"), ("painting@1", 1, "me")
        ]  # fmt: skip

        async def nothing_waits() -> bool:
            lag = json.loads((await kiln.here("lag", "--json")).out)
            assert set(lag) == {catalogue.admission_group, catalogue.gpu_group(POOL)}
            return not any(waiting for topics in lag.values() for waiting in topics.values())

        await eventually(nothing_waits, what="lag 0")


async def test_watch_shows_results_as_they_come(kiln: Kiln, kafka: KafkaSettings, catalogue: Catalogue) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from streams.cli import main; main()", "watch", "--tenant", "me", "--progress",
        env=kiln.environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        async with running(kafka, small_world(catalogue), "plain"):
            first = asyncio.ensure_future(child.stdout.readline())
            while not first.done():  # it watches from its start on, and nothing tells when that is
                assert (await kiln("submit", "a kiln", "--config", "none")).code == 0
                await asyncio.wait({first}, timeout=1)
            said = first.result() or await child.stderr.read()
            assert b"rejected  unknown_config: there is no config" in said
        event = (GOLDEN / "ProgressEvent.v1.json").read_bytes().replace(b"atelier", b"me")
        produce(kafka, catalogue.progress, [(b"me", b"nothing of ours"), (b"me", event)])
        while not (said := await child.stdout.readline()).startswith(b"me/r-1"):
            assert b"rejected" in said, "the results of others before it"
        assert said == b"me/r-1 step 23 of 60\n"
    finally:
        if child.returncode is None:  # else killing it raises, and hides what ended it
            child.kill()
        await child.wait()


async def test_without_topics_a_command_says_what_to_run(kiln: Kiln, kafka: KafkaSettings, prefix: str) -> None:
    """The clients would wait for them for ever."""
    for topic, arguments in (("requests", ("submit", "a kiln")), ("results", ("watch",)), ("results", ("results",))):
        done = await kiln.here(*arguments)
        assert (done.code, done.err) == (1, f"kiln: the topic {prefix}.{topic} is missing; run `kiln topics create`\n")
    lag = await kiln.here("lag", "--json")
    note = f"note: the topic {prefix}.requests is missing; run `kiln topics create`; nothing can wait in it\n"
    assert (lag.code, lag.err) == (0, note)
