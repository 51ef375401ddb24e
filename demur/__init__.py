"""Train and test tool-using language-model agents that know when to act, when to ask and when to refuse.

The code lives in folders at the root of the repository, and this package holds relative links to them:

    demur/envs    -> ../envs       simulated worlds, the trajectory schema, intent contracts, guards
    demur/rewards -> ../rewards    judges and the rubric that turns rollouts into GRPO rewards
    demur/eval    -> ../eval       evaluation, monitors, reports
    demur/train   -> ../train      GRPO and SFT entry points, export
    demur/configs -> ../configs    every shipped configuration

So a script stays at the path a reader expects (`train/grpo.py`) while everything is imported by one name:

    from demur.envs.tool import Tool

In a wheel the links become ordinary folders. Nothing heavy is imported here: live agents import `demur.envs`.
"""

__version__ = "0.1.0"
