"""A policy of random weights that all training tests share."""

from pathlib import Path

import pytest

from tests.train.runs import make_policy


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model with its tokenizer."""
    return make_policy(tmp_path_factory.mktemp("policy"))
