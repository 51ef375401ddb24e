"""PrivacyLens (Shao et al., arXiv 2409.00138): does an agent know a privacy norm, and does it keep to it when it acts?

probe = PrivacyProbe.read(Path("privacylens"), "vignette")            # multiple choice, scored by a rule
actions = PrivacyActions.read(Path("privacylens"), judge=EndpointPrivacyJudge("qwen", base_url=…))
"""

from demur.envs.suites.privacylens.actions import PrivacyActions
from demur.envs.suites.privacylens.cases import Case, Part
from demur.envs.suites.privacylens.judges import EndpointPrivacyJudge, Judged, PrivacyJudge, WordsJudge
from demur.envs.suites.privacylens.probe import Level, PrivacyProbe

__all__ = [
    "Case",
    "EndpointPrivacyJudge",
    "Judged",
    "Level",
    "Part",
    "PrivacyActions",
    "PrivacyJudge",
    "PrivacyProbe",
    "WordsJudge",
]
