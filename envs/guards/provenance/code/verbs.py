"""What a verb does to the world: the effects that requests, tools and orders in results are compared by."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from demur.envs.tool import EffectClass, Tool

_VERBS: Final = {
    "delete": "delete remove cancel erase drop clear purge discard trash wipe revoke unsubscribe uninstall kick ban "
    "terminate close disable deactivate reject decline undo clean empty destroy löschen lösche entferne entfernen "
    "storniere stornieren supprimer supprime annuler annule eliminar elimina borrar borra cancelar cancela "
    "eliminare cancella 删除 取消 移除",
    "pay": "pay transfer wire refund reimburse buy purchase order donate settle tip deposit withdraw überweise "
    "überweisen bezahle zahle payer paye virer pagar paga transfiere transferir pagare 支付 转账 付款 汇款",
    "send": "send email mail forward reply message notify tell inform write text post publish share tweet answer "
    "respond contact ask remind announce broadcast submit upload congratulate thank let say warn pass sende senden "
    "schicke schicken schreibe envoyer envoie transmettre enviar envía mandar invia inviare 发送 发 转发 回复 通知",
    "invite": "invite add include share grant allow give enroll assign admit onboard einladen inviter invite ajouter "
    "ajoute agregar añade invitar invitare aggiungi 邀请 添加",
    "create": "create make add schedule set setup plan book reserve arrange organize organise open register insert "
    "generate draft start launch save store note record plot draw write put append build enter file compose block "
    "erstelle erstellen plane buche réserver créer crée crear crea reservar prenota 创建 安排 预订 新建",
    "change": "update change modify edit rename move reschedule adjust set replace reassign assign mark switch convert "
    "increase decrease raise lower extend shorten postpone shift correct fix reset turn enable append unlock lock "
    "activate rotate complete resize scale pin unpin connect disconnect assign prescribe merge push transition "
    "ändere ändern modifier modifie cambiar cambia aggiorna 修改 更新 更改",
    "run": "run execute install deploy restart stop start scale launch call click open visit go navigate browse "
    "download "
    "fetch follow login log sign use apply roll migrate restore backup copy sync 运行 执行 访问 点击",
    "read": "read get list show find search look check summarize summarise view see count compare describe explain "
    "give display retrieve inspect review calculate compute recommend suggest lies zeige finde montre trouve "
    "muestra busca trova 查看 查找 显示",
}

EFFECTS: Final[dict[str, frozenset[str]]] = {
    verb: frozenset(effect for effect, verbs in _VERBS.items() if verb in verbs.split())
    for verbs in _VERBS.values()
    for verb in verbs.split()
}
"""Effects by verb, in its plain form."""

_WORD = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ENDINGS = ("ing", "ed", "es", "s", "d")


def words_of(text: str) -> list[str]:
    """Words in lower case; names written in camel case or with underscores are taken apart."""
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text))]


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """`reservations`, `reserving` and `reserve` give the same: enough to compare words by, no dictionary form."""
    for ending in ("ations", "ation", "ments", "ment", "ions", "ion", *_ENDINGS):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not (ending == "s" and word.endswith("ss")):
            word = word.removesuffix(ending)
            if word[-1] == word[-2] and (word[-1] in "bgmnprt" or (word.endswith("ell") and len(word) > 5)):
                word = word[:-1]  # pinned, cancelled
            break
    return word[:-1] if len(word) > 3 and word[-1] in "eiy" else word


_BY_STEM: Final[dict[str, frozenset[str]]] = {}
for _verb, _effects in EFFECTS.items():
    _BY_STEM[stem(_verb)] = _BY_STEM.get(stem(_verb), frozenset()) | _effects


def effects_of_word(word: str) -> frozenset[str]:
    return EFFECTS.get(word) or _BY_STEM.get(stem(word), frozenset())


def effects_in(text: str) -> frozenset[str]:
    """Effects that any word of a text's first 20,000 characters can stand for, nouns such as `payment` included."""
    return _effects_in(text[:20_000])


@lru_cache(maxsize=1024)
def _effects_in(text: str) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for word in words_of(text):
        found |= effects_of_word(word)
    for word, effects in EFFECTS.items():
        if not word.isascii() and not word[0].islower() and word in text:  # Han has no blanks between words
            found |= effects
    return found


_KINDS: Final = {EffectClass.DELETE: "delete", EffectClass.PAY: "pay", EffectClass.NOTIFY: "send"}


@lru_cache(maxsize=1024)
def tool_effects(tool: Tool) -> frozenset[str]:
    """What it does: as annotated, else as the first verb of its name says, else the first of its description."""
    if tool.kind in _KINDS:
        return frozenset({_KINDS[tool.kind]})
    for text in (tool.name.rpartition(".")[2], " ".join(tool.description.split()[:6])):
        for word in words_of(text):
            if effects := effects_of_word(word):
                return effects
    return frozenset()


@lru_cache(maxsize=4096)
def objects_of(name: str) -> frozenset[str]:
    """Stems of the words of a tool's name but the verb: what it is about."""
    words = words_of(name.rpartition(".")[2])
    verb = next((word for word in words if effects_of_word(word)), None)
    return frozenset(stem(word) for word in words if word != verb and len(word) > 2)
