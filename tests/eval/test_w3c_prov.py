"""Examinations as W3C PROV, read back by the package that defines the formats here."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prov.model import ProvDerivation, ProvDocument, ProvUsage

from demur.envs.guards.provenance.relations import Examination, Origin, Relation, Span
from demur.envs.trace import Level, Verdict
from demur.eval import w3c_prov
from demur.eval.w3c_prov import NAMESPACE, prov_document
from tests.envs.guards.provenance.scripted import ADDRESS, context
from tests.envs.helpers import call
from tests.eval.verdicts import DAY, FINDINGS, MAIL, REFUSED, finding


def document(findings: Any = FINDINGS, proposed: Any = MAIL, **changes: Any) -> ProvDocument:
    fields = {"level": Level.ALLOW, "guard": "provenance", "stage": "III", "reason": "every relation holds"}
    verdict = Verdict.model_validate(fields | changes)
    return prov_document(context(), proposed, Examination(findings=findings, stage="III", verdict=verdict))


def read(text: str) -> ProvDocument:
    return ProvDocument.deserialize(io.StringIO(text), format="json")


def pairs(made: ProvDocument, kind: type) -> set[tuple[str, str]]:
    """The two things a relation is between, by their local names."""
    return {(str(a.localpart), str(b.localpart)) for record in made.get_records(kind) for a, b, *_ in [record.args]}


def values(made: ProvDocument, id: str) -> dict[str, Any]:
    (record,) = made.get_record(f"demur:{id}")
    return {name.localpart: value for name, value in record.extra_attributes}


def test_json_read_back_is_the_same_document() -> None:
    made = document()
    again = read(made.serialize(format="json"))
    assert again == made
    assert sorted(again.get_provn().splitlines()) == sorted(made.get_provn().splitlines())


def test_a_value_derives_from_the_span_that_was_found_and_the_span_is_quoted_from_its_source() -> None:
    made = document()
    derived = pairs(made, ProvDerivation)
    assert {("argument-0", "span-0"), ("argument-1", "span-1")} <= derived
    assert {("span-0", "source-1"), ("span-1", "source-0")} <= derived
    assert values(made, "span-0")["value"] == ADDRESS
    assert values(made, "source-1") == {"id": "result:0", "origin": "untrusted"}
    assert values(made, "argument-1") == {"name": "day", "value": '"Monday"'}


def test_who_wrote_what_and_who_decided_is_recorded() -> None:
    provn = document().get_provn()
    for line in (
        "wasAttributedTo(demur:source-0, demur:user)",
        "wasAttributedTo(demur:verdict, demur:guard)",
        "wasGeneratedBy(demur:source-1, demur:turn-0, -)",
        "wasAssociatedWith(demur:check-3, demur:guard, -)",
        "wasAssociatedWith(demur:call, demur:agent, -)",
    ):
        assert line in provn
    told = values(document(), "check-3")
    assert told == {"relation": "DerivedFrom", "subject": "to", "decidedBy": "code"}


def test_each_finding_says_whether_it_holds_and_one_that_does_not_derives_nothing() -> None:
    made = document(REFUSED, level=Level.ASK, relation="DerivedFrom", question="Which address?")
    assert [values(made, f"finding-{at}")["holds"] for at in range(4)] == ["true", "true", "undecided", "false"]
    assert values(made, "verdict")["level"] == "ask" and values(made, "verdict")["question"] == "Which address?"
    assert not {pair for pair in pairs(made, ProvDerivation) if pair[0].startswith("argument")}
    assert ("check-3", "argument-0") in pairs(made, ProvUsage)


def test_a_plugins_source_has_no_author_that_is_made_up() -> None:
    memory = Span(source="memory", start=0, end=3, text="Ann", origin=Origin.TRUSTED)
    made = document((finding(Relation.DERIVED_FROM, "to", True, memory),))
    assert values(made, "source-0") == {"id": "memory"}
    assert "wasAttributedTo(demur:source-0" not in made.get_provn()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(max_examples=40, deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_any_text_comes_back_and_stays_out_of_identifiers(name: str, value: str, reason: str) -> None:
    span = Span(source="query", start=0, end=1, text=value, origin=Origin.USER)
    found = (finding(Relation.DERIVED_FROM, name, True, span, reason=reason),)
    made = document(found, call("send" + name, **{name: value}), reason=reason)
    back = read(made.serialize(format="json"))
    assert back == made
    assert values(back, "span-0")["value"] == value
    assert json.loads(values(back, "argument-0")["value"]) == value
    assert values(back, "finding-0")["reason"] == reason
    ids = {record.identifier.uri for record in back.records if record.identifier}
    assert all(id.removeprefix(NAMESPACE).replace("-", "").isalnum() for id in ids)


def test_without_the_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prov.model", None)
    with pytest.raises(ValueError, match=r"pip install 'demur\[prov\]'"):
        document()


def test_the_script_next_to_its_module_still_finds_the_package() -> None:
    """`python eval/w3c_prov.py` puts eval/ first on the path: a module called `prov` there would hide the package."""
    assert not (Path(w3c_prov.__file__).parent / "prov.py").exists()
    done = subprocess.run([sys.executable, w3c_prov.__file__, "--help"], capture_output=True, text=True, check=True)
    assert "--verdicts" in done.stdout


def test_one_span_twice_is_one_entity() -> None:
    made = document(
        (finding(Relation.DERIVED_FROM, "day", True, DAY, DAY), finding(Relation.APPEAR_IN, "day", True, DAY))
    )
    assert len([r for r in made.records if r.identifier and r.identifier.localpart.startswith("span-")]) == 1
