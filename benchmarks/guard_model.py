"""A scripted model, to count what a guard asks a model and in how many calls."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple


class Text(NamedTuple):
    text: str


class ScriptedModel:
    """Answers the guard's questions by rules: an address, or an id of eight digits, that no source holds is made up;
    all else holds.

    Each question is answered from what its prompt shows, alone as among others, for every pipeline. It stands in for a
    model where calls are counted and is no measure of one: whether a call is about the right record, or a request has
    several readings, it never doubts. So where two pipelines differ in what they stop, code made the difference.
    """

    async def complete(self, messages: Any, **options: Any) -> Text:
        data = json.loads(messages[1]["content"])
        schema = options["response_format"]["json_schema"]["name"]
        return Text(json.dumps(getattr(self, schema)(data)))

    def subtask(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"subtask": data["request"]}

    def derivable(self, data: Mapping[str, Any]) -> dict[str, Any]:
        free = {"body", "subject", "notes", "content"}
        return {"parameters": [p for p in data["tool"]["parameters"]["properties"] if p not in free]}

    def readings(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"actions": [], "reason": "one reading", "question": "", "several": False}

    def answers(self, data: Mapping[str, Any]) -> dict[str, Any]:
        return {"answers": [self._answer(question, data) for question in data["questions"]]}

    def _answer(self, question: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
        sources = data.get("sources", [])
        quote = {"source": "query", "text": next((s["text"] for s in sources if s["id"] == "query"), "")}
        holds = True
        if "parameter" in question and "call" in data:
            value = str(data["call"]["arguments"].get(question["parameter"], ""))
            found = next((s["id"] for s in sources if value in s["text"]), None)
            quote = quote if found is None else {"source": found, "text": value}
            holds = found is not None or not re.search(r"@|^\d{8}$", value)
        return {"number": question["number"], "evidence": [quote] if sources else [], "reason": "", "holds": holds}
