"""Checks the tour: its chapters one by one and all together, its pauses, what the lesson quotes.

A block of samples/README.md fenced as ```tour N holds lines that chapter N prints, in their order.

Usage: tour.py TOUR
"""
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
from pathlib import Path

from check import ROOT, Expectations

tour = Path(sys.argv[1]).resolve()
expect = Expectations()
WAITING = b'(Enter shows what happens)'
ANSWER = b'What happened:'
SECONDS = 300


def output_of(*arguments, **environment):
    """Returns what the tour prints; runs in a scratch folder."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([tour, *arguments],
                              capture_output=True,
                              check=False,
                              timeout=SECONDS,
                              cwd=folder,
                              stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment})
    expect(done.returncode == 0 and done.stderr == b'', f'tour {arguments} ends with 0',
           done.stderr)
    return done.stdout.decode()


def parts_of(chapter):
    """Returns the parts of a chapter as letters: question, answer, explanation."""
    kinds = {'Predict:': 'P', 'What': 'H', 'Why:': 'W'}
    lines = re.findall(r'^(Predict:|What happened:$|Why:)', chapter, re.M)
    return ''.join(kinds[line.split()[0]] for line in lines)


def chapters_of(text):
    """Returns the chapters of a whole tour."""
    return re.split(r'^(?=Chapter \d+: )', text, flags=re.M)[1:]


def check_chapters():
    whole = output_of()
    chapters = chapters_of(whole)
    expect(len(chapters) == 8 and whole == ''.join(chapters), 'the chapters', whole)
    for number, chapter in enumerate(chapters, 1):
        expect(chapter.startswith(f'Chapter {number}: '), f'heading of chapter {number}', chapter)
        expect(re.fullmatch('(PHW)+', parts_of(chapter)),
               f'chapter {number} asks, answers, explains', chapter)
        expect(output_of('--chapter', str(number)) == chapter,
               f'chapter {number} is the same alone', chapter)
    # Not on a terminal, --pause does not wait. Threads do not change a digit.
    expect(output_of('--pause', MEZZO_NUM_THREADS='1') == whole, 'the tour with --pause', whole)
    return chapters


def read_until(pipe, end):
    """Returns what a pipe gives until `end`, or until it is closed or silent for SECONDS."""
    text = b''
    while end not in text and select.select([pipe], [], [], SECONDS)[0]:
        part = os.read(pipe, 1 << 16)
        if not part:
            break
        text += part
    return text


def check_pause(chapter):
    """On a terminal, the answer is printed after Enter."""
    keyboard, terminal = pty.openpty()
    with subprocess.Popen([tour, '--chapter', '2', '--pause'], stdin=terminal,
                          stdout=subprocess.PIPE) as process:
        pipe = process.stdout.fileno()
        questions = chapter.count('Predict: ')
        for _ in range(questions):
            text = read_until(pipe, WAITING)
            text += os.read(pipe, 1 << 16) if select.select([pipe], [], [], 0.5)[0] else b''
            before, _, after = text.rpartition(WAITING)
            expect(b'Predict: ' in before and ANSWER not in before.rpartition(b'Predict: ')[2],
                   'the question is printed first', text)
            expect(after == b'', 'nothing is printed before Enter', text)
            os.write(keyboard, b'\n')
        text = read_until(pipe, b'no such text')
        expect(ANSWER in text and WAITING not in text, 'the last answer', text)
        expect(process.wait(SECONDS) == 0, 'the status')
    os.close(keyboard)
    os.close(terminal)


def check_lesson(chapters):
    """The lesson quotes what the chapters print."""
    lesson = (ROOT / 'samples' / 'README.md').read_text(encoding='utf-8')
    quotes = re.findall(r'^```tour (\d)\n(.*?)^```$', lesson, re.M | re.S)
    expect(sorted(int(number) for number, _ in quotes) == list(range(1, len(chapters) + 1)),
           'the lesson quotes each chapter once', quotes)
    for number, quote in quotes:
        printed = iter(chapters[int(number) - 1].splitlines())
        for line in quote.splitlines():
            expect(line in printed, f'chapter {number} prints: {line}', chapters[int(number) - 1])


check_lesson(found := check_chapters())
check_pause(found[1])
expect.verdict()
