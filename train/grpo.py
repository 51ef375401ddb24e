"""Train a policy with GRPO to act, ask or refuse, and evaluate it before and after on held-out tasks.

    accelerate launch train/grpo.py --config configs/quickstart.yaml

The same command trains a larger model on many GPUs with another file. Every key of a configuration is a
flag as well: `--reward pointwise`, `--learning_rate 1e-5`, `--resume`, `--dry_run`.
"""

from __future__ import annotations

import sys

from accelerate.state import PartialState
from datasets import Dataset
from transformers import PrinterCallback
from trl import ModelConfig, get_peft_config

from demur.envs.policies.loading import load_model, load_tokenizer
from demur.envs.trace import Trajectory, write_jsonl
from demur.eval.manifest import manifest
from demur.rewards.rubric import Rubric
from demur.train.arguments import GRPOArguments, RewardArguments, TaskArguments, as_yaml, parse
from demur.train.checks import ROOT, check_batches, check_context, named, one_line_errors
from demur.train.evaluation import check_quality, evaluate, stored_before, write_final
from demur.train.folder import RunFolder
from demur.train.intent import check_intent, check_intent_eval, frozen_scorer, intent_notes
from demur.train.judging import JudgeArguments, StopWithoutJudge
from demur.train.progress import StepRecorder
from demur.train.rollout import Rollouts, TimedTrainer, prompt_of, reward_functions
from demur.train.scoring import GroupScorer
from demur.train.wandb_log import WandbLog

DEFAULT_CONFIG = str(ROOT / "configs" / "quickstart.yaml")
ARGUMENTS = (TaskArguments, RewardArguments, JudgeArguments, GRPOArguments, ModelConfig)


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    if "--config" not in argv and "--model_name_or_path" not in argv:
        argv = ["--config", DEFAULT_CONFIG, *argv]
    run_args, reward_args, judge_args, args, model_args, config = parse(ARGUMENTS, argv)
    if run_args.dry_run:
        print(as_yaml(config), end="")
        return
    is_main = PartialState().is_main_process

    # 1. the policy, and tasks: those to train on, and those of wordings it will not have seen
    name = named(model_args.model_name_or_path)
    tokenizer, model = load_tokenizer(name), load_model(name, dtype=model_args.dtype or "float32")
    train = run_args.tasks("train", run_args.counts, args.seed)
    check_batches(len(train), args)
    test = run_args.tasks("test", reward_args.eval_counts, args.seed)
    context = args.vllm_max_model_length or getattr(model.config, "max_position_embeddings", None)
    check_context(tokenizer, [*train, *test], run_args.prompt_options, run_args.max_turn_tokens, context)

    # 2. how rollouts are rewarded: compared within their group by a judge, gated by the outcome
    rubric = Rubric(
        judge=judge_args.make(reward_args.reward),
        kind=reward_args.reward,
        comparing=judge_args.comparing,
        gate=reward_args.outcome_gate,
        weights=reward_args.weights,
        length_budget=reward_args.length_budget,
        intent_terms=reward_args.counted_intent,
    )
    frozen = None
    if reward_args.intent_scores or reward_args.intent_eval:  # by the policy as it is now, or by another model
        check_intent(train, reward_args.intent_decoys)
        frozen = frozen_scorer(
            model,
            tokenizer,
            reward_args.intent_decoys,
            run_args.prompt_options,
            use_peft=model_args.use_peft,
            other=named(reward_args.intent_model) if reward_args.intent_model else None,
        )
    if reward_args.intent_eval:
        check_intent_eval(test)
    intent = frozen if reward_args.intent_scores else None
    guard = reward_args.make_guard()

    # 3. the run's folder is ours from here on; nothing was written before
    folder = RunFolder(run_args.run)
    record = manifest(
        seeds={"run": args.seed},
        data={"train": train, "test": test},
        notes={
            "judge": rubric.judge.name,
            "checks": "same checks, held-out tasks",
            **intent_notes(intent, reward_args.intent_eval),
        },
    )
    if is_main:
        folder.claim(config, resume=run_args.resume, overwrite=run_args.overwrite)
        folder.manifest.write_text(record.model_dump_json(indent=1), encoding="utf-8")
    PartialState().wait_for_everyone()

    # 4. the trainer: TRL's, with our rollouts
    recorder = StepRecorder(folder, intent=intent)
    scorer = GroupScorer(rubric, args.num_generations, recorder.record)
    rollouts = Rollouts(
        {task.id: task for task in train},
        scorer,
        run_args.prompt_options,
        max_turn_tokens=run_args.max_turn_tokens,
        context=context,
        guard=guard,
        intent=intent,
    )
    trainer = TimedTrainer(
        model=model,
        args=run_args.complete(args, reward_args.weights, folder),
        reward_funcs=reward_functions(),
        train_dataset=Dataset.from_list([{"prompt": prompt_of(task)} for task in train]),
        processing_class=tokenizer,
        peft_config=get_peft_config(model_args),
        rollout_func=rollouts,
    )
    trainer.remove_callback(PrinterCallback)
    watch = StopWithoutJudge(scorer, judge_args.judge_max_failures)
    trainer.add_callback(watch)
    if frozen:
        frozen.attach(trainer.accelerator.unwrap_model(trainer.model), trainer.accelerator.device)
    if is_main:
        recorder.trainer = trainer
        trainer.add_callback(recorder)
    if is_main and reward_args.wandb:
        trainer.add_callback(WandbLog(folder, config))

    # 5. before, training, after
    def evaluated(policy: str) -> list[Trajectory]:
        return evaluate(
            policy,
            trainer.accelerator.unwrap_model(trainer.model),
            tokenizer,
            test,
            run_args.prompt_options,
            max_turn_tokens=run_args.max_turn_tokens,
            batch_size=reward_args.eval_batch,
            guard=guard,
        )

    before = stored_before(folder) or evaluated("before")
    if is_main:
        write_jsonl(folder.before, before)
    try:
        check_quality(before, reward_args.min_valid_turns, reward_args.min_completion)
    except ValueError:
        if is_main and not run_args.resume:
            folder.discard()
        PartialState().wait_for_everyone()
        raise

    checkpoint = folder.last_checkpoint() if run_args.resume else None
    if is_main:
        folder.forget_after(int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    watch.check()
    trainer.save_model(str(folder.adapter if model_args.use_peft else folder.model))

    after = evaluated("after")
    if is_main:
        reads = frozen.reading(test, record.notes) if frozen and reward_args.intent_eval else None
        write_final(folder, before, after, record, reads)


if __name__ == "__main__":
    with one_line_errors():
        main()
