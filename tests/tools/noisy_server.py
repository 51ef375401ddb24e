"""A local OpenAI-compatible server that judges badly, and breaks, as much as it is told to.

It answers the questions of `LLMJudge` on `/v1/chat/completions`: it reads the trajectories in the data part of the
message, takes their worth from a truth it was given, and lets the simulated judge put its noise on it. To practise on::

    python -m tests.tools.noisy_server --port 8000 --accuracy 0.8 --limited 0.1 --latency 0.2

    with NoisyServer(worth, NoisyJudge(accuracy=0.8), Faults(errors=0.1)) as server:
        Calls(server.model, base_url=server.url)

The same question gets the same answer and the same fault, whatever was asked before it.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from http import HTTPStatus
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from demur.envs.trace import Action, ActionKind, Ending, Label, Outcome, Trajectory, Turn, read_jsonl
from demur.rewards.judges import Judge
from demur.rewards.judges.calls import Answer, Question
from demur.rewards.judges.llm import LLMJudge
from demur.rewards.judges.oracle import Rank, rank
from demur.rewards.judges.simulated import NoisyJudge

Message = dict[str, str]
Worth = Callable[[Sequence[Message]], float]
"""How good a trajectory is, in [0, 1], from what the judge is shown of it: a list of {"role", "text"}."""

MODEL = "noisy"
REFUSAL = "I cannot help with that."


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How often each fault strikes, as shares of all questions; at most one strikes a question.

    refusals: no text, only a refusal. malformed: text that is no JSON. cut: the reply ends in its middle. limited: 429
    with Retry-After. errors: 500. dropped: the connection is closed without a reply. hanging: no reply, ever.
    """

    refusals: float = 0.0
    malformed: float = 0.0
    cut: float = 0.0
    limited: float = 0.0
    errors: float = 0.0
    dropped: float = 0.0
    hanging: float = 0.0

    def __post_init__(self) -> None:
        shares = [getattr(self, field.name) for field in fields(self)]
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError("shares of faults are at least 0 and at most 1 together")

    def strike(self, draw: float) -> str | None:
        """The fault that a draw from [0, 1) falls on."""
        for field in fields(self):
            draw -= getattr(self, field.name)
            if draw < 0:
                return field.name
        return None


class Response(NamedTuple):
    status: int
    body: dict[str, Any]
    headers: tuple[tuple[str, str], ...] = ()


class Drop(Exception):
    """The connection is closed without a reply."""


class NoisyServer:
    """Serves from a thread of its own while the `with` block runs.

    attempts: a fault strikes the first so many times its question is asked, every time if None. latency and
    retry_after are in seconds. key: the only one that is let in; None lets everybody in. fooled_by: a trajectory with
    one of these texts in it beats every other, and gets the full score.
    """

    def __init__(
        self,
        worth: Worth,
        judge: Judge | None = None,
        faults: Faults | None = None,
        *,
        attempts: int | None = None,
        latency: float = 0.0,
        retry_after: float = 0.05,
        key: str | None = None,
        model: str = MODEL,
        fooled_by: Sequence[str] = (),
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self.worth = worth
        self.judge: Judge = judge or NoisyJudge(accuracy=1.0, position_bias=0.5)
        self.faults = faults or Faults()
        self.attempts = attempts
        self.latency = latency
        self.retry_after = retry_after
        self.key = key
        self.model = model
        self.fooled_by = tuple(fooled_by)
        self.seed = seed
        self.port = port
        self.requests: list[dict[str, Any]] = []
        self.asked: Counter[str] = Counter()  # times a question was asked, by its sha256
        self.most_at_once = 0
        self._at_once = 0
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> NoisyServer:
        self._thread.start()
        try:
            self._listening = self._await(asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=256))
        except OSError:
            self._stop_loop()
            raise
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *error: object) -> None:
        self._await(self._close())
        self._stop_loop()

    def _await(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=10)

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        self._listening.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:  # those that hang as well
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, kept open from request to request as real servers do."""
        try:
            while request := await _read(reader):
                writer.write(_encode(await self._respond(*request)))
                await writer.drain()
        except (Drop, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client left, a fault was asked for, or the server ends
        finally:
            writer.close()

    async def _respond(self, path: str, headers: dict[str, str], body: bytes) -> Response:
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            given = headers.get("authorization", "").removeprefix("Bearer ")  # real servers repeat it, too
            return _error(401, f"Incorrect API key provided: {given}")
        if path == "/v1/models":
            return Response(200, {"object": "list", "data": [{"id": self.model, "object": "model"}]})
        if path != "/v1/chat/completions":
            return _error(404, f"there is no {path}")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            return await self._complete(json.loads(body))
        finally:
            self._at_once -= 1

    async def _complete(self, request: dict[str, Any]) -> Response:
        self.requests.append(request)
        if request["model"] != self.model:
            return _error(404, f"The model {request['model']!r} does not exist")
        question = next(message["content"] for message in request["messages"] if message["role"] == "user")
        digest = hashlib.sha256(f"{self.seed}\0{question}".encode()).hexdigest()
        self.asked[digest] += 1
        fault = self.faults.strike(int(digest[:12], 16) / 16**12)
        if self.attempts is not None and self.asked[digest] > self.attempts:
            fault = None
        if fault == "hanging":
            await asyncio.Event().wait()
        await asyncio.sleep(self.latency)
        return self._answer(request, question, fault)

    def _answer(self, request: dict[str, Any], question: str, fault: str | None) -> Response:
        if fault == "dropped":
            raise Drop
        if fault == "errors":
            return _error(500, "the server had an error")
        if fault == "limited":
            return _error(429, "too many requests", ("Retry-After", str(self.retry_after)))
        try:
            reply = self._judge(data_part(question), request)
        except (ValueError, KeyError) as error:
            return _error(400, f"this is no question that the noisy server can answer: {error}")
        if fault == "refusals" or reply is None:  # None: the simulated judge failed
            return _completion(request, None)
        if fault == "malformed":
            return _completion(request, "I would say that the first one is better.")
        text = json.dumps(reply)
        if fault == "cut":
            return _completion(request, text[: len(text) // 2], "length")
        return _completion(request, text)

    def _judge(self, data: dict[str, Any], request: dict[str, Any]) -> dict[str, Any] | None:
        """A reply with the keys that the request's schema names; None if the simulated judge failed."""
        name = "verdict" if "first" in data else "score"
        value = self._verdict(data) if name == "verdict" else self._score(data)
        if value is None:
            return None
        schema = request.get("response_format", {}).get("json_schema", {}).get("schema", {})
        texts = [key for key in schema.get("properties", {"reason": {}}) if key != name]
        return {**dict.fromkeys(texts, "It looks so."), name: value}

    def _verdict(self, data: dict[str, Any]) -> str | None:
        fooled = [self._fools(data[name]) for name in ("first", "second")]
        if fooled[0] != fooled[1]:
            return "first" if fooled[0] else "second"
        first, second = (self._stand_in(data["request"], data[name]) for name in ("first", "second"))
        verdict = self.judge.compare([(first, second)])[0]
        return None if verdict is None else {1.0: "first", 0.5: "tie", 0.0: "second"}[verdict]

    def _score(self, data: dict[str, Any]) -> int | None:
        if self._fools(data["trajectory"]):
            return 10
        score = self.judge.score([self._stand_in(data["request"], data["trajectory"])])[0]
        return None if score is None else round(10 * score)

    def _fools(self, messages: Sequence[Message]) -> bool:
        return any(text in message["text"] for text in self.fooled_by for message in messages)

    def _stand_in(self, request: str, messages: Sequence[Message]) -> Trajectory:
        """A trajectory that reads the same and that the oracle ranks by its worth."""
        turns = tuple(
            Turn(action=Action(kind=ActionKind.ANSWER), raw=message["text"])
            if message["role"] == "assistant"
            else Turn(action=Action(kind=ActionKind.ANSWER), observation=message["text"])
            for message in messages
        )
        return Trajectory(
            task_id="served",
            world="served",
            family="served",
            label=Label.BENIGN,  # whose ranks follow the goal alone
            split="train",
            query=request,
            turns=turns,
            ending=Ending.ANSWER,
            outcome=Outcome(goal=self.worth(messages)),
            turn_limit=len(turns),
        )


def data_part(question: str) -> dict[str, Any]:
    """The JSON object with the trajectories in a question to the judge; ValueError if there is none."""
    decoder = json.JSONDecoder()
    at = question.find("{")
    while at >= 0:
        try:
            data, _ = decoder.raw_decode(question, at)
        except ValueError:
            data = None
        if isinstance(data, dict) and "request" in data and ({"first", "second"} <= set(data) or "trajectory" in data):
            return data
        at = question.find("{", at + 1)
    raise ValueError("the message has no data part with a request and trajectories")


async def _read(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes] | None:
    """Path, headers with lower-case names, and body of the next request; None at the end of the connection."""
    line = await reader.readline()
    if not line:
        return None
    _, path, _ = line.decode("latin-1").split(" ", 2)
    headers = {}
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return path, headers, await reader.readexactly(int(headers.get("content-length", "0")))


def _encode(response: Response) -> bytes:
    body = json.dumps(response.body).encode()
    headers = (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *response.headers)
    head = f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}\r\n"
    return (head + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n").encode("latin-1") + body


def _error(status: int, message: str, *headers: tuple[str, str]) -> Response:
    return Response(status, {"error": {"message": message}}, headers)


def _completion(request: dict[str, Any], text: str | None, stop: str = "stop") -> Response:
    message = {"role": "assistant", "content": text, "refusal": REFUSAL if text is None else None}
    asked = sum(len(message["content"]) for message in request["messages"])
    prompt, completion = asked // 4, len(text or REFUSAL) // 4
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    choice = {"index": 0, "message": message, "finish_reason": stop}
    return Response(
        200,
        {"id": "reply", "object": "chat.completion", "created": 0, "model": request["model"], "choices": [choice]}
        | {"usage": usage},
    )


class _Listener:
    """Takes the place of `Calls`, and keeps what would have been sent."""

    def __init__(self) -> None:
        self.questions: list[str] = []

    def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
        self.questions += [question.messages[-1]["content"] for question in questions]
        return [Answer(None, "only listening")] * len(questions)


def shown(trajectories: Sequence[Trajectory]) -> list[list[Message]]:
    """What the judge is shown of each trajectory."""
    listener: Any = _Listener()
    LLMJudge(listener).score(trajectories)
    return [data_part(question)["trajectory"] for question in listener.questions]


def worths(trajectories: Sequence[Trajectory]) -> Worth:
    """The oracle's order of known trajectories: 1 for a task's best, the others evenly below. KeyError for others."""
    ranks: dict[str, set[Rank]] = defaultdict(set)
    for trajectory in trajectories:
        ranks[trajectory.task_id].add(rank(trajectory))
    known = {}
    for trajectory, messages in zip(trajectories, shown(trajectories), strict=True):
        order = sorted(ranks[trajectory.task_id])
        known[_key(messages)] = (order.index(rank(trajectory)) + 1) / len(order)
    return lambda messages: known[_key(messages)]


def drawn(messages: Sequence[Message]) -> float:
    """A worth from the letters alone: it means nothing, but is the same each time."""
    return int.from_bytes(hashlib.sha256(_key(messages)).digest()[:4], "big") / 2**32


def _key(messages: Sequence[Message]) -> bytes:
    return json.dumps([[message["role"], message["text"]] for message in messages]).encode()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--rollouts", type=Path, help="trajectories that the oracle ranks; without, worth is drawn")
    parser.add_argument("--accuracy", type=float, default=0.8)
    parser.add_argument("--position-bias", type=float, default=0.6)
    parser.add_argument("--length-bias", type=float, default=0.0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--retry-after", type=float, default=0.5, help="seconds that a 429 asks for")
    parser.add_argument("--attempts", type=int, help="a fault strikes the first so many times; without, every time")
    parser.add_argument("--key", help="the only key that is let in")
    parser.add_argument("--fooled-by", nargs="*", default=[], help="texts that this judge falls for")
    parser.add_argument("--seed", type=int, default=0)
    for field in fields(Faults):
        parser.add_argument(f"--{field.name}", type=float, default=0.0, help="share of the questions")
    options = parser.parse_args(argv)
    try:
        with _server(options) as server:
            print(f"{server.model} listens on {server.url}", flush=True)
            Event().wait()
    except KeyboardInterrupt:
        pass
    except (ValueError, OSError) as error:
        parser.error(str(error))


def _server(options: argparse.Namespace) -> NoisyServer:
    return NoisyServer(
        worths(list(read_jsonl(options.rollouts))) if options.rollouts else drawn,
        NoisyJudge(
            accuracy=options.accuracy,
            position_bias=options.position_bias,
            length_bias=options.length_bias,
            seed=options.seed,
        ),
        Faults(**{field.name: getattr(options, field.name) for field in fields(Faults)}),
        attempts=options.attempts,
        latency=options.latency,
        retry_after=options.retry_after,
        key=options.key,
        fooled_by=options.fooled_by,
        seed=options.seed,
        port=options.port,
    )


if __name__ == "__main__":
    main()
