from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.errors import PulsarscopeError, UsageError
from pulsarscope.spark.checkpoints import checkpoint as module
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint, Commit, LandedCapture
from pulsarscope.spark.checkpoints.waiting_facts import SLICES, WaitingFacts, of_task
from pulsarscope.spark.files.table_files import sync_files

ASKED: dict[str, Any] = {"--output": "out", "--records": ["frame"], "--port": None}


def begun(folder: Path) -> Checkpoint:
    made = Checkpoint(str(folder / "kept"))
    made.create(ASKED)
    return made


def append(kept: Checkpoint, batch: int) -> None:
    """Write the facts of a batch."""
    with kept.writing(f"facts/{of_task(batch, 0)}", "0" * 32 + "-") as stream:
        stream.write(b"x")


def landed(position: int) -> LandedCapture:
    return LandedCapture(position, f"{position}.pcap", None, 1, 2, 3)


def test_it_is_that_of_one_run(tmp_path: Path) -> None:
    kept = Checkpoint(str(tmp_path / "kept"))
    assert not kept.resumes(ASKED)
    kept.create(ASKED)
    assert kept.resumes(ASKED)
    with pytest.raises(UsageError, match=r'--records was \["frame"\], not \["message"\]\): name another'):
        kept.resumes({**ASKED, "--records": ["message"]})
    with pytest.raises(UsageError, match=r"--port was null, not \[6650\]\): name another"):
        kept.resumes({**ASKED, "--port": [6650]})


def test_one_of_another_version_is_refused_whose_state_may_have_another_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = begun(tmp_path)
    made_by = module._version()
    monkeypatch.setattr(module, "_version", lambda: "9.0.0 (0123)")
    why = f"was made by pulsarscope {made_by}, whose open connections may be unreadable to this one, 9.0.0 (0123): end the run"
    with pytest.raises(UsageError, match=re.escape(why)) as refused:
        kept.resumes(ASKED)
    assert "\n" not in str(refused.value)


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    assert stat.S_IMODE(Path(begun(tmp_path).path).stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
@pytest.mark.parametrize("folder", ["", "commits", "states"])
def test_one_that_others_can_write_is_refused_because_its_state_is_code(tmp_path: Path, folder: str, mode: int) -> None:
    kept = begun(tmp_path)
    place = Path(kept.path) / folder
    assert kept.resumes(ASKED)
    place.chmod(mode)
    with pytest.raises(UsageError, match="others can write the checkpoint"):
        kept.resumes(ASKED)
    place.chmod(0o755)
    assert kept.resumes(ASKED)


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
def test_one_of_another_user_is_refused(tmp_path: Path) -> None:
    kept = begun(tmp_path)
    os.chown(kept.path, 12345, -1)
    with pytest.raises(UsageError, match="others can write the checkpoint"):
        kept.resumes(ASKED)


def test_only_one_process_goes_on_with_it(tmp_path: Path) -> None:
    kept = begun(tmp_path)
    with kept.lock(), pytest.raises(UsageError, match="a run that has not ended"), Checkpoint(kept.path).lock():
        pass
    with Checkpoint(kept.path).lock():
        pass


def test_what_a_commit_speaks_of_outlasts_the_machine_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settled = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        settled.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    kept = begun(tmp_path)
    (tmp_path / "out" / "frame").mkdir(parents=True)
    (tmp_path / "out" / "frame" / "_x").touch()
    names = [("frame", "_x", "part-0")]
    monkeypatch.setattr("os.fsync", fsync)
    append(kept, 5)
    sync_files(str(tmp_path / "out"), names)
    kept.commit(Commit(0, 5, WaitingFacts(1, [5]), names))
    assert settled == [f"_{'0' * 32}-000000005-000", "facts", "_x", "frame", "_000000.json", "commits"]


@pytest.mark.parametrize(("uri", "why"), [("no://where", "Unrecognized filesystem"), ("s3://", "s3://")])
def test_a_place_that_nobody_knows_is_one_line(uri: str, why: str) -> None:
    with pytest.raises(PulsarscopeError, match=why) as refused:
        Checkpoint(uri).resumes(ASKED)
    assert "\n" not in str(refused.value)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="not empty and not a checkpoint"):
        Checkpoint(str(tmp_path)).resumes(ASKED)


def test_one_that_is_damaged_is_one_line(tmp_path: Path) -> None:
    kept = begun(tmp_path)
    (tmp_path / "kept" / "run.json").write_text("{")
    with pytest.raises(UsageError, match=r"run\.json cannot be read"):
        kept.resumes(ASKED)


def test_the_list_is_kept_in_its_order(tmp_path: Path) -> None:
    kept = begun(tmp_path)
    kept.append([landed(0)])
    kept.append([landed(number) for number in range(1, 12)])
    kept.append([landed(12)])
    (tmp_path / "kept" / "list" / "_000000013.json").write_text("[{")  # the driver was killed
    assert Checkpoint(kept.path).captures() == [landed(number) for number in range(13)]
    assert kept.captures(12) == [landed(12)]
    assert kept.captures(13) == []


def test_only_the_last_commit_and_its_facts_are_kept(tmp_path: Path) -> None:
    kept = begun(tmp_path)
    assert kept.last_commit() == Commit()
    facts = WaitingFacts(1)
    for batch in range(1, 5):
        append(kept, batch)
        facts = facts.with_batch(batch, 1, has_facts=True)
        if batch == 3:  # a batch without its files
            facts = facts.evaluated([*range(SLICES)], batch, 1, 1)
        done = Commit(batch, batch, facts, [("frame", "_x", "part")])
        kept.commit(done)
    append(kept, 5)
    (tmp_path / "kept" / "commits" / "_000005.json").write_text("{")  # the driver was killed
    (tmp_path / "kept" / "facts" / f"_{'0' * 32}-000000006-000").touch()
    assert kept.last_commit() == done
    assert [path.name for path in (tmp_path / "kept").glob("commits/*")] == ["000004.json"]
    assert [path.name for path in (tmp_path / "kept").glob("facts/*")] == ["000000004-000"]


def test_files_of_the_file_system_are_left_alone(tmp_path: Path) -> None:
    kept = begun(tmp_path)
    strays = [tmp_path / "kept" / folder / name for folder in ("commits", "facts") for name in (".nfs0000000012", "zzz")]
    for path in strays:
        path.touch()
    assert kept.last_commit() == Commit()
    for batch in range(2):
        append(kept, batch)
        kept.commit(done := Commit(batch, batch, WaitingFacts(1, [batch])))
    assert kept.last_commit() == done
    assert all(path.exists() for path in strays)
    assert sorted(path.name for path in (tmp_path / "kept").glob("*s/0*")) == ["000000001-000", "000001.json"]


def test_the_number_of_shares_is_that_of_the_first_time(tmp_path: Path) -> None:
    assert [begun(tmp_path).shares(count) for count in (3, 8)] == [3, 3]


def test_a_capture_that_changed_is_not_the_one_that_was_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"x")
    taken = LandedCapture(0, str(path), None, 1, path.stat().st_mtime_ns, None)
    assert taken.is_unchanged()
    path.write_bytes(b"xy")
    assert not taken.is_unchanged()
    path.unlink()
    assert not taken.is_unchanged()
