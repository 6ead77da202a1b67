"""A trace as CSV: what it means, and one sentence with the line where it is wrong."""

from pathlib import Path

import pytest

from infra.planner.request import Request
from infra.planner.trace import read_trace
from schemas.catalogue import ConfigCatalogue
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
        ("time,config,seconds\n1,a,4\nsoon,a,4\n", "line 3: time is 'soon'; write a number"),
        ("time,config,seconds\n1,a,4\n,a,4\n", "line 3: time is ''; write a number"),
        ("time,config,seconds\n1,a,-4\n", "line 2: seconds is '-4'; write a number from 0.001 on"),
        ("time,config,seconds\n1,a,nan\n", "line 2: seconds is 'nan'"),
        ("time,config,seconds\n1,A b,4\n", "line 2: config 'A b' of model 'A b' at 4 seconds; write names"),
        ("time,config,seconds,lane\n1,a,4,fast\n", "line 2: lane is 'fast'; write one of: interactive, standard, bulk"),
        ("time,config\n1,poster\n", "line 2: there is no config 'poster'; known are: none; or give its seconds"),
        ("time,config\n1,\n", "line 2: config is ''; write letters"),
        ("time,config,seconds,deadline\n1,a,4,inf\n", "line 2: deadline is 'inf'; write a number from 0 on"),
        ("time,config,seconds\n0,a,4\n1e12,a,4\n", "spans 1e+12 seconds, more than a year; write its times in seconds"),
        ("time,config,seconds\n-1e308,a,4\n1e308,a,4\n", "spans inf seconds"),
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
