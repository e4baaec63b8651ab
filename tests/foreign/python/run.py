"""Runs the tests with other people's programs and says in one line how they went."""

import pathlib
import sys
import unittest


def main():
    folder = pathlib.Path(__file__).parent
    pattern = sys.argv[1] if len(sys.argv) > 1 else "test_*.py"
    suite = unittest.defaultTestLoader.discover(str(folder), pattern=pattern)
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(suite)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    passed = result.testsRun - failed - len(result.skipped) - len(result.expectedFailures)
    word = "ok" if failed == 0 and passed > 0 else "FAILED"
    print(f"test result: {word}. {passed} passed; {failed} failed; {len(result.skipped)} ignored")
    return 0 if word == "ok" else 1


if __name__ == "__main__":
    sys.exit(main())
