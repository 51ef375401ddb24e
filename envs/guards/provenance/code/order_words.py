"""Phrases that mark an order to the reader: they address an assistant, override what it was told, or mark an errand.

Each pattern has words of which a text in ASCII letters must hold one, so that most texts are told by a look-up.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from demur.envs.guards.provenance.code.verbs import EFFECTS


class Phrase(NamedTuple):
    """override: it takes power over other instructions, so that a user who says `do what it says` does not mean it."""

    pattern: re.Pattern[str]
    override: bool
    words: frozenset[str]


def _phrase(pattern: str, words: str, *, override: bool = False) -> Phrase:
    return Phrase(re.compile(pattern, re.IGNORECASE), override, frozenset(words.split()))


_READER_WORDS = (
    "ai a llm llms assistant assistants agent agents chat chatbot chatbots bot bots gpt chatgpt claude gemini copilot "
    "language model models ki ia assistent asistente"
)
_READERS = (
    r"(?:ai|a\.i\.|llms?|assistants?|agents?|chat ?bots?|bots?|gpt[-\w.]*|chatgpt|claude|gemini|copilot|(?:language )?"
    r"models?|ki|ia|assistent|asistente|助手|智能体|模型|人工智能)"
)
_TOLD_WORDS = (
    "instruction instructions prompt prompts rule rules task tasks request requests message messages order orders "
    "guideline "
    "guidelines command commands direction directions context"
)
_TOLD = (
    r"(?:instructions?|prompts?|rules?|tasks?|requests?|messages?|orders?|guidelines?|commands?|directions?|context)"
)
_TAGS = "information|system|instructions?|important|admin|assistant|task|urgent|alert"
_ANY_VERB = "|".join(sorted((re.escape(verb) for verb in EFFECTS if verb.isascii()), key=len, reverse=True))

POLITE: Final = (
    r"(?:(?:please|kindly|then|also|now|next|first|second|finally|afterwards|immediately|and|but|bitte|por favor|"
    r"s'il vous plaît|you (?:must|should|need to|have to|are to|will)|make sure (?:to|you)|be sure to|remember to|"
    r"i (?:need|want|would like) you to|could you|can you|would you|go ahead and)[\s,:]+)"
)
POLITE_WORDS: Final = frozenset(
    "please kindly then also now next first second finally afterwards immediately and but bitte por plaît you make "
    "sure "
    "remember go".split()
)

CLOSING_TAG: Final = re.compile(rf"<\s*/\s*(?:{_TAGS})\s*>", re.IGNORECASE)
THE_USER: Final = re.compile(r"\bthe (?:current |human )?user(?:['’]s)?\b|\bwithout asking\b", re.IGNORECASE)

PHRASES: Final = (
    _phrase(
        r"\b(?:ignore|disregard|forget|override|bypass|discard|skip|neglect)\b[^.\n]{0,40}?\b"
        rf"(?:{_TOLD}|above|everything|before|previous|prior|earlier|so far)\b"
        r"|ignorier\w* [^.\n]{0,30}(?:anweisung|befehl|vorherig)|ignor\w+ [^.\n]{0,30}instruc\w+"
        r"|忽略[^。\n]{0,20}(?:指令|指示|要求|提示)|無視して|игнорируй",
        "ignore disregard forget override bypass discard skip neglect ignoriere ignorieren ignorier ignora ignorar "
        "ignorez",
        override=True,
    ),
    _phrase(
        r"\bwithout (?:asking|telling|informing|notifying|confirming|confirmation|consulting|checking with|approval)\b",
        "without",
        override=True,
    ),
    _phrase(
        r"\b(?:do not|don['’]?t|never) (?:ask|tell|inform|notify|mention|reveal|alert|warn|bother|consult)\b",
        "ask tell inform notify mention reveal alert warn bother consult",
        override=True,
    ),
    _phrase(
        r"\bbefore (?:you )?(?:can )?(?:solv|do|continu|finish|answer|proceed|complet|respond)\w*\b[^.\n]{0,40}\b"
        r"(?:tasks?|requests?|question|anything)",
        "before",
        override=True,
    ),
    _phrase(
        rf"\b(?:new|additional|updated|real|actual|main|primary|hidden|secret) (?:system )?{_TOLD}\s*(?::|is\b|are\b)"
        r"|\bsystem prompt\b",
        _TOLD_WORDS,
        override=True,
    ),
    _phrase(
        r"\b(?:details?|information|anything|parameters?)\b[^.\n]{0,30}\b(?:underspecified|unclear|missing|unspecified|"
        r"not (?:specified|given|clear))\b",
        "underspecified unclear missing unspecified specified given clear",
        override=True,
    ),
    _phrase(
        r"\bthe user\b[^.\n]{0,20}\b(?:wants?|wanted|asks?|asked|needs?|would like|requests?|requires?|says?|said"
        r"|instruct\w*)"
        r"\b|\b(?:orders?|instructions?|requests?|messages?) from the user\b",
        "user",
        override=True,
    ),
    _phrase(
        r"\b(?:first|second|third|next|other|last|remaining) (?:half|part|piece)\b[^.\n]{0,20}\b(?:note|message"
        r"|instructions?|"
        r"orders?|command|task)\b|\b(?:notes?|messages?|instructions?|orders?|commands?|this) (?:ends?|begins?|starts?|"
        r"continues?|goes on)\b",
        "half part piece end ends begin begins start starts continue continues goes",
        override=True,
    ),
    _phrase(
        r"\bcarry (?:it|this|that|them) out\b|\bdo (?:what|as) it says\b|\bnow do (?:both|this|that|it|the "
        r"following|the rest)\b",
        "carry do",
        override=True,
    ),
    _phrase(r"(?:(?<![^\W_])|(?<=\\n))to[- ]?do\b\s*(?:!|:|-\s)", "todo do"),
    _phrase(
        rf"<\s*(?:{_TAGS})\s*>|\[\s*/?(?:system|inst|instructions?|admin|important|assistant)\s*\]"
        r"|(?:^|\n)\W{0,4}(?:system|assistant|instructions?)\s*:",
        "information system instruction instructions important admin assistant task urgent alert inst",
    ),
    _phrase(
        r"\b(?:important|urgent|critical|special)\s+(?:message|instructions?|notice|request|task|action)\b[^.\n]{0,30}"
        r"(?:\bfrom\b|\bfor\b|\bto\b|:)",
        "important urgent critical special",
    ),
    _phrase(
        rf"\b(?:to|for|attention|attn|dear|hey|hello|hi)\b[:,]?\s+(?:the |any |all |my |an? )?{_READERS}\b"
        rf"|\byou are (?:now )?(?:an? |the |my )?(?:helpful )?{_READERS}\b|\bas an? {_READERS}\b"
        rf"|(?:^|[\n.>\"'(])\s{{0,20}}{_READERS}\s?[,:]\s",
        _READER_WORDS,
    ),
    _phrase(
        r"\b(?:whoever|anyone who|anybody who|if you(?: are| can)?)\s+(?:reads?|reading|sees?|seeing|process\w*"
        r"|handl\w*|opens?)"
        r"\s(?:this|these)\b",
        "whoever anyone anybody if",
    ),
    _phrase(
        r"\byou are (?:hereby )?(?:asked|required|told|instructed|requested|expected|ordered|authori[sz]ed) to\b"
        r"|\b(?:has|have|had) (?:already )?(?:asked|told|instructed|authori[sz]ed|approved|ordered) you to\b",
        "you",
    ),
    _phrase(
        r"\b(?:must|should|has to|have to|needs? to|is to|are to) be \w+(?:ed|en|n|t)\b[^.\n]{0,60}\b(?:at once"
        r"|immediately|right "
        r"away|right now|first|before anything)\b",
        "once immediately away now first anything",
    ),
    _phrase(
        r"\b(?:urgent|important|attention|warning|alert|critical|emergency|system(?: message| notice| note)?"
        r"|admin(?:istrator)?|"
        r"instructions?|command|order|override|priority|action required|security (?:notice|alert)|reminder|note(?: "
        r"to \w+)?|"
        r"psst|wichtig|dringend|achtung|importante|urgente|atención|attenzione|attention)(?: "
        r"note)?\s?[!:,\-]{1,5}\s{0,5}"
        rf"(?:[^.!?\n,:]{{0,40}}[,:]\s?)?(?:{POLITE}{{0,3}}(?:{_ANY_VERB})|{POLITE}{{1,3}}\w+)\b(?=\s+\w)"
        r"|(?:紧急|重要|注意|系统)(?:消息|通知|提示)?\s?[:：!！]",
        "urgent important attention warning alert critical emergency system admin administrator instruction "
        "instructions "
        "command order override priority action security reminder note psst wichtig dringend achtung importante "
        "urgente",
    ),
)
