"""A trace as CSV: what it means, and one sentence with the line where it is wrong."""

from pathlib import Path

import pytest

from infra.planner.kinds import read_kinds
from infra.planner.request import Request
from infra.planner.trace import read_trace, write_trace
from schemas.catalogue import ConfigCatalogue, load_configs
from schemas.errors import CommandError


def read(tmp_path: Path, text: str) -> list[Request]:
    path = tmp_path / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return read_trace(path, ConfigCatalogue(()), deadline_seconds=600.0)


def test_requests_come_in_order_from_nought_on(tmp_path: Path) -> None:
    first, second = read(
        tmp_path,
        "time,config,seconds,model,images,tenant,lane,deadline\n"
        "107.5,clip,60,clips,,shop,bulk,900\n"
        "100,picture,4,stills,3,,,\n",
    )
    assert (first.arrival, first.deadline, first.seconds) == (0.0, 600.0, 12.0)
    assert (first.tenant, first.lane) == ("tenant", "standard")
    assert (second.number, second.arrival, second.deadline, second.seconds) == (1, 7.5, 907.5, 60.0)
    assert (second.tenant, second.lane) == ("shop", "bulk")


def test_configurations_differ_by_name_and_swap_by_model(tmp_path: Path) -> None:
    a, b, c, d = read(tmp_path, "time,config,seconds,model\n1,a,4,m\n2,b,4,m\n3,c,4,\n4,a,4,m\n")
    assert a.config.model_key == b.config.model_key != c.config.model_key
    assert len({each.config.config_hash for each in (a, b, c)}) == 3
    assert a.config is d.config


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no column 'time'; its first line names them"),
        ("time\n1\n", "has no column 'config'"),
        ("time,config,cost\n", "has a column 'cost'; take it out, for known are: time, config"),
        ("time,config\n", "has no line below its header"),
        (
            "time,config,seconds\n1,a,4\nsoon,a,4\n",
            "line 3: time is 'soon'; write a number of seconds",
        ),
        ("time,config,seconds\n1,a,4\n,a,4\n", "line 3: time is ''; write a number"),
        ("time,config,seconds\n1,a,-4\n", "line 2: seconds is '-4'; write a number of seconds from 0.001 on"),
        ("time,config,seconds\n1,a,nan\n", "line 2: seconds is 'nan'"),
        ("time,config,seconds\n1,A b,4\n", "line 2: config 'A b' of model 'A b' at 4 seconds; write names"),
        ("time,config,seconds,lane\n1,a,4,fast\n", "line 2: lane is 'fast'; write one of: interactive, standard, bulk"),
        ("time,config\n1,poster\n", "line 2: there is no config 'poster'; known are: none; or give its seconds"),
        ("time,config\n1,\n", "line 2: config is ''; write letters"),
        (
            "time,config,seconds,deadline\n1,a,4,inf\n",
            "line 2: deadline is 'inf'; write a number of seconds from 0 on",
        ),
        ("time,config,seconds\n0,a,4\n1e10,a,4\n", "spans 1e+10 seconds, more than a year; write its times in seconds"),
        (
            "time,config,seconds\n1767225600000,a,4\n",
            "line 2: time is '1767225600000'; write a number of seconds, 100000000000 at most",
        ),
        ("id,time,config,seconds\n7,1,a,4\n", "has a column 'id'; take it out, for known are: time"),
        ("time;config\n1;a\n", "has no column 'time'; its first line names them, commas between them"),
        ("time,config\n1,shapes@9\n", "line 2: there is no config 'shapes'"),
        ("time,config,seconds,images\n1,a,4,1e300\n", "line 2: images is 1e+300; write a whole number up to 1024"),
        ("time,config,seconds,images\n1,a,4,1.9\n", "line 2: images is 1.9; write a whole number"),
        ("time,config,time\n1,a,2\n", "has the column 'time' twice; take one of them out"),
        ("time,config,seconds\n1,a,4,5\n", "line 2 has more cells than the header"),
        ('time,config\n1,"a\n', "is no CSV in UTF-8"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_the_line_and_the_cure(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(CommandError) as caught:
        read(tmp_path, text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"none.csv cannot be read \(No such file or directory\); name a CSV file"):
        read_trace(tmp_path / "none.csv", ConfigCatalogue(()), deadline_seconds=1.0)


def test_what_a_spreadsheet_saves_is_read(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_bytes(b"\xef\xbb\xbftime, config, seconds\r\n2, a, 4\r\n1, b, 8\r\n")
    first, second = read_trace(tmp_path / "trace.csv", ConfigCatalogue(()), deadline_seconds=60.0)
    assert [(each.config.name, each.arrival, each.seconds) for each in (first, second)] == [("b", 0, 8), ("a", 1, 4)]


def test_a_version_that_is_not_there_is_told_of_with_those_that_are(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("time,config\n1,sketch@1\n2,sketch@9\n")
    with pytest.raises(CommandError, match=r"line 3: .*sketch.* version 9"):
        read_trace(tmp_path / "trace.csv", load_configs(Path("infra/configs")), deadline_seconds=60.0)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    """A configuration of the deployment by its name and version; any other with what is known of it."""
    configs = load_configs(Path("infra/configs"))
    (tmp_path / "trace.csv").write_text(
        "time,config,seconds,model,images,tenant,lane,deadline\n0,sketch@1,,,2,shop,bulk,900\n1.5,clip,60,clips,,,,\n"
    )
    before = read_trace(tmp_path / "trace.csv", configs, deadline_seconds=60.0)
    write_trace(before, configs, tmp_path / "again.csv")
    after = read_trace(tmp_path / "again.csv", configs, deadline_seconds=1.0)
    fields = ("arrival", "config", "tenant", "lane", "deadline", "images", "seconds")
    assert [[getattr(each, name) for name in fields] for each in after] == [
        [getattr(each, name) for name in fields] for each in before
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("config,seconds,weight\na,4,-1\n", "line 2: weight is '-1'; write a number from 0 on"),
        ("config,seconds,weight\na,4,1e308\n", "line 2: weight is '1e308'; write a number, 1000000000 at most"),
        ("config,seconds,weight\na,4,0\n", "has no line with a weight above 0; give it one line for each kind"),
        ("config,seconds,together\na,4,0\n", "line 2: together is '0'; write a number from 1 on"),
        ("config,seconds,together\na,4,1e7\n", "line 2: together is 1e+07; write a whole number up to 100000"),
        ("weight\n1\n", "has no column 'config'"),
    ],
)
def test_what_is_wrong_with_kinds_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "kinds.csv").write_text(text)
    with pytest.raises(CommandError) as caught:
        read_kinds(tmp_path / "kinds.csv", ConfigCatalogue(()), deadline_seconds=60.0)
    assert sentence in str(caught.value)


def test_the_example_of_kinds_is_read() -> None:
    picture, clip, list_ = read_kinds(Path("infra/examples/kinds.csv"), ConfigCatalogue(()), deadline_seconds=60.0)
    assert (picture.config, clip.config.price.gpu_seconds, list_.together) == (list_.config, 60.0, 300)
