"""Warm a policy up with scripted demonstrations, or make a small one from nothing.

    python train/sft.py --config configs/tiny_policy.yaml                 # the policy that ships
    accelerate launch train/sft.py --config configs/models/my_model.yaml  # any model of yours

The loss covers exactly the tokens that the policy writes. `expert_*` says how often a demonstration does
the right thing; a warm-up below 1 leaves unsafe behaviour for reinforcement to remove.
"""

from __future__ import annotations

import sys
from random import Random
from typing import Any

from accelerate.state import PartialState
from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, PrinterCallback, set_seed
from trl import ModelConfig, SFTConfig, SFTTrainer, get_peft_config

from demur.envs.policies.loading import load_model, load_tokenizer
from demur.eval.manifest import manifest
from demur.eval.metrics import metric_rows
from demur.train.arguments import TaskArguments, WarmUpArguments, as_yaml, parse
from demur.train.checks import check_context, named, one_line_errors
from demur.train.demonstrations import IGNORED, choose_scripts, declaring, demonstrate, texts_of
from demur.train.evaluation import evaluate
from demur.train.folder import RunFolder
from demur.train.optimizers import MuonAndAdamW
from demur.train.progress import CheckpointMarks
from demur.train.scratch import fit_tokenizer, new_model


def main(argv: list[str] | None = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    classes = (TaskArguments, WarmUpArguments, SFTConfig, ModelConfig)
    run_args, warm_args, args, model_args, config = parse(classes, argv)
    if run_args.dry_run:
        print(as_yaml(config), end="")
        return
    set_seed(args.seed)
    is_main = PartialState().is_main_process

    # 1. tasks, and the script that each demonstration follows
    train = run_args.tasks("train", run_args.counts, args.seed)
    scripts = choose_scripts(train, warm_args.expert_share, warm_args.check_share, Random(args.seed))
    train, scripts = declaring(train, scripts, warm_args.declare_share, Random(args.seed))

    # 2. the model: one from nothing fits its tokenizer to the demonstrations
    if warm_args.from_scratch:
        texts = texts_of(train, scripts, run_args.prompt_options)
        tokenizer: Any = fit_tokenizer(texts, warm_args.sizes.vocabulary)
        model: Any = new_model(warm_args.sizes, tokenizer)
    else:
        name = named(model_args.model_name_or_path)
        tokenizer, model = load_tokenizer(name), load_model(name, dtype=model_args.dtype or "float32")
    context = getattr(model.config, "max_position_embeddings", None)
    check_context(tokenizer, train, run_args.prompt_options, run_args.max_turn_tokens, context)

    folder = RunFolder(run_args.run)
    record = manifest(seeds={"run": args.seed}, data={"train": train})
    if is_main:
        folder.claim(config, resume=run_args.resume, overwrite=run_args.overwrite)
        folder.manifest.write_text(record.model_dump_json(indent=1), encoding="utf-8")
    PartialState().wait_for_everyone()

    # 3. supervised training on the demonstrations
    optimizer = None
    if warm_args.muon_learning_rate > 0:
        optimizer = MuonAndAdamW(model, muon_lr=warm_args.muon_learning_rate, adamw_lr=args.learning_rate)
    rows = list(demonstrate(train, scripts, tokenizer, run_args.prompt_options))
    trainer = SFTTrainer(
        model=model,
        args=warm_args.complete(args, folder, run_args.curriculum),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        data_collator=DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=IGNORED),
        peft_config=get_peft_config(model_args),
        optimizers=(optimizer, None),
        callbacks=[Progress()],
    )
    trainer.remove_callback(PrinterCallback)
    checkpoint = folder.last_checkpoint() if run_args.resume else None
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)

    # 4. what came of it, on tasks of held-out wordings
    target = folder.adapter if model_args.use_peft else folder.model
    trainer.save_model(str(target))
    test = run_args.tasks("validation", warm_args.eval_counts, args.seed)
    played = evaluate(
        "warm-up",
        trainer.accelerator.unwrap_model(trainer.model),
        tokenizer,
        test,
        run_args.prompt_options,
        max_turn_tokens=run_args.max_turn_tokens,
        batch_size=64,
    )
    if is_main:
        for row in metric_rows(played):
            print(f"{row.label:15} {row.metric:22} {row.value:.3f}  [{row.ci_low:.3f}, {row.ci_high:.3f}]  n={row.n}")
        print(f"policy: {target}")


class Progress(CheckpointMarks):
    """One line now and then: step, loss, time left."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kw: Any) -> None:
        if logs and "loss" in logs and state.is_world_process_zero:
            print(f"step {state.global_step}/{state.max_steps} · loss {logs['loss']:.4f}", flush=True)


if __name__ == "__main__":
    with one_line_errors():
        main()
