"""Names of months, weekdays and small counts, in a few languages."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_MONTH_NAMES = (
    "january jan januar janvier enero gennaio janeiro",
    "february feb februar février febrero febbraio fevereiro",
    "march mar märz mars marzo março",
    "april apr avril abril aprile",
    "may mai mayo maggio maio",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août agosto",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre diciembre dicembre dezembro",
)
_WEEKDAY_NAMES = (
    "monday mon montag lundi lunes lunedì",
    "tuesday tue tues dienstag mardi martes martedì",
    "wednesday wed mittwoch mercredi miércoles mercoledì",
    "thursday thu thurs donnerstag jeudi jueves giovedì",
    "friday fri freitag vendredi viernes venerdì",
    "saturday sat samstag samedi sábado sabato",
    "sunday sun sonntag dimanche domingo domenica",
)

MONTHS: Final = {name: number for number, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
WEEKDAYS: Final = {name: number for number, names in enumerate(_WEEKDAY_NAMES) for name in names.split()}
COUNTS: Final = {
    word: Decimal(number)
    for number, words in {
        "0.5": "half",
        "1": "a an one once single ein eine un une uno una",
        "2": "two twice both zwei deux dos due couple pair",
        "3": "three drei trois tres tre",
        "4": "four vier quatre cuatro",
        "5": "five fünf cinq cinco",
        "6": "six sechs seis",
        "7": "seven sieben sept siete",
        "8": "eight acht huit ocho",
        "9": "nine neun neuf nueve",
        "10": "ten zehn dix diez",
        "11": "eleven elf onze once",
        "12": "twelve zwölf douze doce dozen",
        "15": "fifteen quinze",
        "20": "twenty zwanzig vingt",
        "24": "twenty-four",
        "30": "thirty dreißig trente",
        "40": "forty",
        "45": "forty-five",
        "50": "fifty",
        "60": "sixty",
        "90": "ninety",
        "100": "hundred",
        "1000": "thousand",
    }.items()
    for word in words.split()
}


def month_pattern() -> str:
    return _any_of(MONTHS)


def weekday_pattern() -> str:
    return _any_of(WEEKDAYS)


def _any_of(names: dict[str, int]) -> str:
    return "|".join(sorted(map(re.escape, names), key=len, reverse=True))
