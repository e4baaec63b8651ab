"""Runs the tests with other people's programs and says in one line how they went.

A few that failed are run once more when everything else is over: a start of five programs may be late on a busy machine.
"""

import pathlib
import re
import sys
import unittest

# More failures than this are no accident of scheduling.
MAX_REPEATED = 4


def run(suite):
    return unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)


def failures(result):
    return result.failures + result.errors + [(test, "an unexpected success") for test in result.unexpectedSuccesses]


def name(test):
    """The name that finds a test again; a class whose preparation failed is found by its own."""
    prepared = re.fullmatch(r"setUpClass \((.+)\)", test.id())
    return prepared.group(1) if prepared else test.id()


def main():
    folder = pathlib.Path(__file__).parent
    pattern = sys.argv[1] if len(sys.argv) > 1 else "test_*.py"
    result = run(unittest.defaultTestLoader.discover(str(folder), pattern=pattern))
    failed = failures(result)
    repeated = []
    if 0 < len(failed) <= MAX_REPEATED:
        repeated = sorted({name(test) for test, _ in failed})
        print("once more: " + ", ".join(repeated))
        failed = failures(run(unittest.defaultTestLoader.loadTestsFromNames(repeated)))
    passed = result.testsRun - len(failed) - len(result.skipped) - len(result.expectedFailures)
    word = "ok" if not failed and passed > 0 else "FAILED"
    if repeated and word == "ok":
        print("note: failed beside other tests, and succeeded alone: " + ", ".join(repeated))
    print(f"test result: {word}. {passed} passed; {len(failed)} failed; {len(result.skipped)} ignored")
    return 0 if word == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
