"""Play random histories as an ordinary user: `python -m tests.histories [--count N] [--seed S] [--commits|--mixed]`."""

import argparse
import sys
from contextlib import nullcontext

from tests.histories import commits, history, mixed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first; the next has the next number")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--commits", action="store_true", help="play histories of a git repository (tests/histories/commits)")
    kinds.add_argument("--mixed", action="store_true", help="play histories of files and commits (tests/histories/mixed)")
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--as-is", action="store_true", help="do not make a history shorter that is wrong")
    parser.add_argument("--stage-in-tree", action="store_true", help="as if the state directory were on another file system")
    args = parser.parse_args()
    with history.stages_in_tree() if args.stage_in_tree else nullcontext():
        return play_all(args)


def play_all(args: argparse.Namespace) -> int:
    kind = commits if args.commits else mixed if args.mixed else history
    draw, play = kind.draw, kind.violation_of
    wrong = 0
    for seed in range(args.seed, args.seed + args.count):
        steps = draw(seed)
        found = play(steps)
        if found:
            wrong += 1
            steps = steps if args.as_is else history.shortened(steps, play)
            sys.stdout.write(reported(seed, steps, found if args.as_is else play(steps)))
            sys.stdout.flush()
            if not args.keep_going:
                break
        if (seed - args.seed) % 20 == 19:
            sys.stdout.write(f"{seed - args.seed + 1} histories: {wrong} violations\n")
            sys.stdout.flush()
    sys.stdout.write(f"{seed - args.seed + 1} histories of {history.STEPS} steps from seed {args.seed}: {wrong} violations\n")
    return 1 if wrong else 0


def reported(seed: int, steps: tuple[history.Step, ...], found: str = "") -> str:
    rows = "".join(f"  {number}  {step}\n" for number, step in enumerate(steps))
    return f"seed {seed}:\n{rows}  -> {found or history.violation_of(steps)}\n"


if __name__ == "__main__":
    sys.exit(main())
