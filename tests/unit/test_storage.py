"""Model files: everything comes back, nothing runs, and damage is told in one sentence."""

import json
import os
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest

import thali
from thali import storage
from thali.estimators import saving


@pytest.fixture(scope="module")
def model():
    X = thali.datasets.images(n=30, random_state=0).X
    prior = thali.TwoParameterIBP(alpha=thali.Gamma(2.0, 1.0), beta=thali.Gamma(1.0, 1.0))
    engine = thali.CollapsedGibbs(sweeps=12, chains=2)
    return thali.LatentFeatures(
        prior, likelihood="linear_gaussian", engine=engine, center=True, random_state=3
    ).fit(X)


def test_everything_comes_back(model, tmp_path):
    model.save(tmp_path / "m.thali")
    back = thali.load(tmp_path / "m.thali")
    for name in ("Z_", "components_", "assignment_probabilities_", "X_", "mean_"):
        assert np.array_equal(getattr(model, name), getattr(back, name)), name
    for name in ("prior_", "likelihood_", "engine_", "log_joint_", "seed_", "starts_", "drift_"):
        assert getattr(model, name) == getattr(back, name), name
    for name, values in model.history_.items():
        assert np.array_equal(values, back.history_[name])
    assert back.get_params() == model.get_params()
    X = model.X_[:5]
    assert np.array_equal(model.transform(X), back.transform(X))
    assert model.score(X) == back.score(X)
    for a, b in zip(model.draws(), back.draws(), strict=True):
        assert np.array_equal(a.A, b.A)


def test_names_come_back(tmp_path):
    frame = pd.DataFrame(np.eye(4), columns=list("wxyz"), index=list("abcd"))
    model = thali.LatentFeatures(
        likelihood="linear_gaussian", engine=thali.CollapsedGibbs(sweeps=4, chains=1)
    ).fit(frame)
    model.save(tmp_path / "m.thali")
    back = thali.load(tmp_path / "m.thali")
    assert list(back.feature_names_in_) == list("wxyz")
    assert back.row_names_ == list("abcd")


def test_a_start_from_a_matrix_or_a_model_can_be_saved(model, tmp_path):
    engine = thali.CollapsedGibbs(sweeps=4, chains=1, init=model)
    again = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(
        model.X_
    )
    assert again.starts_ == ["another model"]
    again.save(tmp_path / "m.thali")
    assert np.array_equal(thali.load(tmp_path / "m.thali").Z_, again.Z_)


@pytest.mark.parametrize("make", [list, pd.DataFrame])
def test_a_start_from_lists_or_a_frame_can_be_saved(model, make, tmp_path):
    Z = np.eye(30, 2, dtype=int)
    engine = thali.CollapsedGibbs(sweeps=4, chains=1, init=make(Z.tolist()))
    again = thali.LatentFeatures(likelihood="linear_gaussian", engine=engine, random_state=0).fit(
        model.X_
    )
    again.save(tmp_path / "m.thali")
    assert np.array_equal(thali.load(tmp_path / "m.thali").engine.init, Z)


def test_the_file_is_arrays_and_json_only(model, tmp_path):
    model.save(tmp_path / "m.thali")
    with zipfile.ZipFile(tmp_path / "m.thali") as zipped:
        names = zipped.namelist()
        assert all(name.endswith(".npy") or name == "thali.json" for name in names)
        assert json.loads(zipped.read("thali.json"))["format"] == storage.FORMAT


def test_no_code_is_run_from_a_file(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    evil = np.array([Bomb()], dtype=object)
    path = tmp_path / "evil.thali"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("thali.json", json.dumps({"format": 1, "kind": "model"}))
        with zipped.open("X.npy", "w") as file:
            np.lib.format.write_array(file, evil, allow_pickle=True)
    with pytest.raises(ValueError, match="damaged"):
        thali.load(path)
    assert not (tmp_path / "exploded").exists()
    pickle.loads(pickle.dumps(evil))  # the bomb is a real one
    assert (tmp_path / "exploded").exists()


def test_only_known_classes_are_made():
    with pytest.raises(KeyError):
        saving.from_json({"class": "Popen", "args": "ls"})


def damage(kind, whole):
    return {
        "not a zip": b"hello",
        "empty": b"",
        "truncated": whole[: len(whole) // 2],
        "garbled": whole[:200] + bytes(200) + whole[400:],
    }[kind]


@pytest.mark.parametrize("kind", ["not a zip", "empty", "truncated", "garbled"])
def test_damage_is_told_in_one_sentence(model, tmp_path, kind):
    path = tmp_path / "m.thali"
    model.save(path)
    path.write_bytes(damage(kind, path.read_bytes()))
    with pytest.raises(ValueError, match=r"damaged") as error:
        thali.load(path)
    assert "\n" not in str(error.value)


def test_newer_foreign_and_missing_files(model, tmp_path):
    newer = tmp_path / "newer.thali"
    with zipfile.ZipFile(newer, "w") as zipped:
        zipped.writestr("thali.json", json.dumps({"format": 99, "kind": "model"}))
    with pytest.raises(ValueError, match="newer thali"):
        thali.load(newer)
    storage.write(tmp_path / "c.thali", "checkpoint", {}, {})
    with pytest.raises(ValueError, match="is a thali checkpoint, not a model"):
        thali.load(tmp_path / "c.thali")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        thali.load(tmp_path / "none.thali")
    with pytest.raises(OSError, match="is a folder"):
        thali.load(tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(model, tmp_path, monkeypatch):
    path = tmp_path / "m.thali"
    model.save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.thali"]
    with pytest.raises(FileNotFoundError, match="does not exist"):
        model.save(tmp_path / "nowhere" / "m.thali")


def test_an_array_among_settings_comes_back_as_it_was(tmp_path):
    for value in (np.array([[2.5, -3.5]]), np.array([True, False]), np.arange(3)):
        storage.write(tmp_path / "a.thali", "model", {}, {"value": saving.to_json(value)})
        _, meta = storage.read(tmp_path / "a.thali", "model")
        back = saving.from_json(meta["value"])
        assert back.dtype == value.dtype
        assert np.array_equal(back, value)
