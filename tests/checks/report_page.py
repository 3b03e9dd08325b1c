"""Opens pages of the precision report in headless Chromium and checks what they show.

Usage: report_page.py [--samples FOLDER] [PAGE.html...]

Without pages: the page in measure/report/page with the synthetic runs of
tests/support/report_data.py.
With the folder of the sample programs: also the page of each net at all levels, whose panels must
be filled by the run.
For each page: no message on the console, no request but for the file itself, content in all eleven
panels, labels neither clipped nor overlapping at three widths, shares equal to a reference on the
data, the lesson, the keyboard, and contrast in both themes. Once: the number explorer.
"""
import base64
import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from check import ROOT, Expectations, skip

sys.path[:0] = [str(ROOT / 'tests' / 'support'), str(ROOT / 'measure' / 'report' / 'page')]
sys.dont_write_bytecode = True
import float_reference  # noqa: E402 (the folders are added above)
import report_data  # noqa: E402
from assemble import assemble  # noqa: E402
from browser import Browser, find_browser  # noqa: E402

expect = Expectations()
DATA = re.compile(r'<script id="data" type="([^"]+)">(.*?)</script>', re.DOTALL)
MOST_SECONDS = 1.0  # CPU time until the page is complete
MOST_SIZE = 115_000  # bytes of the page without data
WIDTHS = (760, 1280, 1920)
KINDS = ('activation', 'activation_grad', 'weight', 'weight_grad', 'update')
GRADIENTS = ('activation_grad', 'weight_grad')

LEVELS = ('O0', 'O1', 'O2', 'O3', 'O4', 'O5')
MOST_BYTES = 15_000_000  # of a page of several runs

# Net -> sample and its arguments: the smallest trainings with three sampled steps.
TRAININGS = {
    'mlp': ('mnist', '--net mlp --train 800 --test 32 --batch 16 --epochs 9 --steps 42'),
    'lenet': ('mnist', '--net lenet --train 200 --test 32 --batch 4 --epochs 9 --steps 42'),
    'char_gpt': ('char_gpt', '--config tiny --batch 2 --steps 42'),
    'char_lstm': ('char_lstm', '--width 32 --batch 4 --steps 42'),
    'dcgan': ('dcgan', '--width 4 --noise 8 --train 400 --batch 8 --steps 42'),
}

# Texts of drawings that leave their drawing or overlap another text in the same row, and elements
# whose content is wider than they are (but for those that scroll).
CLIPPED = r'''(() => {
  const wrong = [];
  for (const svg of document.querySelectorAll('svg.chart')) {
    const {width, height} = svg.viewBox.baseVal, rows = new Map();
    for (const text of svg.querySelectorAll('text')) {
      if (text.textContent === '') continue;
      const b = text.getBBox();
      if (b.x < -0.5 || b.y < -2 || b.x + b.width > width + 0.5 || b.y + b.height > height + 2)
        wrong.push(`outside of ${svg.getAttribute('aria-label')}: ${text.textContent}`);
      const key = Math.round(b.y);
      if (!rows.has(key)) rows.set(key, []);
      rows.get(key).push([b.x, b.x + b.width, text.textContent]);
    }
    for (const row of rows.values()) {
      row.sort((a, b) => a[0] - b[0]);
      for (let i = 1; i < row.length; ++i)
        if (row[i][0] < row[i - 1][1] - 0.5)
          wrong.push(`in ${svg.getAttribute('aria-label')}: ${row[i - 1][2]} over ${row[i][2]}`);
    }
  }
  for (const one of document.querySelectorAll('header *, main *')) {
    if (one.closest('svg') || one.closest('.scroll') || one.matches('input, select')) continue;
    if (one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 &&
        getComputedStyle(one).display !== 'inline')
      wrong.push(`${one.tagName} ${one.className}: ${one.textContent.slice(0, 60)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth) wrong.push('the page scrolls sideways');
  return wrong.slice(0, 10);
})()'''

# Waits until the page is drawn anew.
FRAME = 'new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))'

# Waits up to 10 s until the page has a theme.
THEME_IS = '''new Promise((done) => {
  const look = (left) => document.documentElement.dataset.theme === '%s' ? done(true) :
    left ? setTimeout(look, 10, left - 1) : done(false);
  look(1000);
})'''

# The contrast of texts and their background, [ratio, colour], in the theme that is on.
CONTRAST = r'''['ink', 'soft', 'accent', 'problem', 'hint', 'good', 'f32', 'f16', 'bf16'].map(
(name) => {
  const probe = document.body.appendChild(document.createElement('i'));
  const light = (colour) => {
    probe.style.color = `var(--${colour})`;
    const parts = getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map((v) => v / 255);
    const [r, g, b] = parts.map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const [a, b] = [light(name), light('card')];
  probe.remove();
  return [Math.max(a, b) / Math.min(a, b), name];
})'''

# ---- data ---------------------------------------------------------------------------------------


def data_of(page):
    """Returns the objects in the data element of a page."""
    found = DATA.search(page)
    kind, body = found.group(1), found.group(2)
    if kind == 'application/gzip+base64':
        body = gzip.decompress(base64.b64decode(body)).decode('utf-8')
    objects = []
    for line in body.split('\n'):
        try:
            objects.append(json.loads(line))
        except ValueError:
            pass
    return [one for one in objects if isinstance(one, dict)]


def page_of(kind, compressed):
    """Returns a page with a synthetic run."""
    text = report_data.text_of(kind)
    if compressed:
        body = base64.b64encode(gzip.compress(text.encode('utf-8'))).decode('ascii')
        element = f'<script id="data" type="application/gzip+base64">{body}</script>'
    else:
        body = text.replace('<', '\\u003c')
        element = f'<script id="data" type="application/x-ndjson">{body}</script>'
    return assemble(ROOT / 'measure' / 'report' / 'page').replace('@DATA@', element)


def rows_of(objects, run, step, kind):
    sample = next(one for one in objects
                  if one.get('type') == 'sample' and one['run'] == run and one['step'] == step)
    return [row for row in sample['rows'] if row['kind'] == kind]


# ---- one page -----------------------------------------------------------------------------------


def open_page(browser, path, name):
    """Opens a page and waits until it is complete. Returns the CPU seconds that it took."""
    browser.call('Performance.enable', timeDomain='threadTicks')
    browser.open(path)
    browser.evaluate('window.report.ready.then(() => new Promise((done) => '
                     'requestAnimationFrame(() => setTimeout(done, 0))))')
    metrics = browser.call('Performance.getMetrics')['metrics']
    expect(
        browser.evaluate('window.report.failed ?? ""') == '', f'{name}: the page failed',
        browser.evaluate('window.report.failed'))
    return next(one['value'] for one in metrics if one['name'] == 'TaskDuration')


def check_quiet(browser, name, path):
    expect(not browser.messages, f'{name}: messages on the console', browser.messages)
    own = [Path(path).resolve().as_uri()]
    others = [url for url in browser.requests if url not in own and not url.startswith('data:')]
    expect(not others, f'{name}: requests other than the file', others)


def check_panels(browser, name):
    panels = browser.evaluate('''Array.from({length: 11}, (_, i) => {
      const body = document.querySelector(`#panel-${i + 1} .body`);
      return body ? [body.textContent.trim().length, body.querySelectorAll('svg, table, li').length,
        body.querySelector('.missing')?.textContent ?? '',
        /undefined|\\[object/.exec(body.textContent)?.[0] ?? ''] :
        [0, 0, '', 'no panel'];
    })''')
    for number, (length, parts, missing, odd) in enumerate(panels, 1):
        expect(length > 30 and (parts > 0 or len(missing) > 30),
               f'{name}: panel {number} is empty: {length} characters, {parts} parts', missing)
        expect(odd == '', f'{name}: panel {number} shows {odd!r}')


def check_training(browser, name, objects):
    """The first panel has a curve of each number, and a mark for each skipped step."""
    run = next(one for one in objects if one.get('type') == 'run').get('run', 0)
    own = [one for one in objects if one.get('run', 0) == run]
    steps = [one for one in own if one['type'] == 'step']
    logged = {one['name'] for one in own if one['type'] == 'log'}
    losses = sum('loss' in one.lower() for one in logged)
    skipped = sum('skipped' in one['results'] for one in steps)
    charts = browser.evaluate("""[...document.querySelectorAll('#panel-1 svg')].map((svg) =>
      [svg.getAttribute('aria-label'), svg.querySelectorAll('path.line').length,
        svg.querySelectorAll('path.skip-mark').length,
        [...svg.querySelectorAll('path.line')].every((line) => line.getAttribute('d') !== '')])""")
    found = {label: rest for label, *rest in charts}
    if not steps:
        expect(not charts, f'{name}: curves without steps', charts)
        return
    expect(found.get('loss over the steps') == [1 + losses, skipped, True],
           f'{name}: the loss curve; expected {1 + losses} lines and {skipped} marks', charts)
    for one in logged:
        if 'loss' not in one.lower():
            expect(found.get(f'{one} over the steps', [0])[0] == 1, f'{name}: curve of {one}',
                   charts)
    if any(one.get('lrs') for one in steps):
        expect('learning rate over the steps' in found, f'{name}: the learning rate', charts)
    expect(any('per second' in label for label in found), f'{name}: the throughput', charts)


def check_filled(browser, name):
    """No panel says that the run lacks its data; only a run at O0 has no casts."""
    missing = browser.evaluate('''Array.from({length: 11}, (_, i) => [i + 1,
      ...[...document.querySelectorAll(`#panel-${i + 1} .missing`)].map((one) => one.textContent)])
      .filter((one) => one.length > 1)''')
    level = browser.evaluate('document.getElementById("title").textContent')
    wrong = [one for one in missing if not ('O0' in level and one[0] == 6 and len(one) == 2)]
    expect(not wrong, f'{name}: panels without data', wrong)


def check_labels(browser, name):
    for width in WIDTHS:
        browser.resize(width)
        browser.evaluate('new Promise((done) => setTimeout(done, 350))')  # panels are drawn again
        wrong = browser.evaluate(CLIPPED)
        expect(not wrong, f'{name}: labels at a width of {width}', '\n'.join(wrong))
    browser.resize(1280)
    browser.evaluate('new Promise((done) => setTimeout(done, 350))')


def check_lesson(browser, name):
    questions = browser.evaluate('''window.report.data.runs.map((run) =>
      window.report.lessonQuestions(run, window.report.data.policy))''')
    for asked in questions:
        expect(len(asked) == 8, f'{name}: the lesson has {len(asked)} questions, expected 8')
        for one in asked:
            holds = (0 <= one['right'] < len(one['options']) and len(one['why']) > 20
                     and len(set(one['options'])) == len(one['options']) >= 2)
            expect(holds, f'{name}: a question of the lesson', one)
    expect(len({one['text'] for one in questions[0]}) == 8, f'{name}: a question is asked twice')
    score = browser.evaluate('''(() => {
      const panel = document.querySelector('#panel-11');
      const {data, lessonQuestions} = window.report;
      const asked = lessonQuestions(data.runs[0], data.policy);
      panel.querySelectorAll('.questions li').forEach((item, i) => {
        const right = i === 0 ? (asked[i].right + 1) % asked[i].options.length : asked[i].right;
        item.querySelectorAll('input')[right].click();
        item.querySelector('button').click();
      });
      return panel.querySelector('[role=status]').textContent;
    })()''')
    expect(score == '7 of 8 predictions right.', f'{name}: the score of the lesson', score)


def check_themes(browser, name):
    for scheme in ('light', 'dark'):
        browser.media('', scheme)
        # A busy browser tells the page late.
        expect(browser.evaluate(THEME_IS % scheme), f'{name}: the page follows the system')
        for ratio, colour in browser.evaluate(CONTRAST):
            expect(ratio >= 4.5, f'{name}: {colour} in the {scheme} theme has contrast {ratio:.1f}')
    background = browser.evaluate('getComputedStyle(document.body).backgroundColor')
    browser.evaluate('document.getElementById("theme").click()')
    expect(background != browser.evaluate('getComputedStyle(document.body).backgroundColor'),
           f'{name}: the theme button changes nothing')
    browser.media('print', 'dark')
    printed = browser.evaluate('[getComputedStyle(document.body).backgroundColor, '
                               'getComputedStyle(document.getElementById("tools")).display]')
    expect(printed == ['rgb(255, 255, 255)', 'none'], f'{name}: the print style', printed)
    browser.media('', 'light')


def check_keyboard(browser, name):
    """Arrow keys move the cursor of each drawing that takes the focus, and a slider."""
    drawings = browser.evaluate('document.querySelectorAll("svg[tabindex]").length')
    for i in range(drawings):
        here = f'document.querySelectorAll("svg[tabindex]")[{i}]'
        read = f'(() => {{ const d = {here}; return (d.closest("figure") ?? d.closest(".scroll")' \
            '.parentElement).querySelector(".readout").textContent; })()'
        browser.evaluate(f'{here}.focus()')
        first = browser.evaluate(read)
        for key in ('ArrowRight', 'ArrowLeft', 'ArrowRight', 'ArrowRight'):
            browser.press(key)
            if browser.evaluate(read) != first:
                break
        # where a program has logged one value, there is nowhere to go
        expect(
            browser.evaluate(read) != first or
            browser.evaluate(f'{here}.dataset.positions') == '1',
            f'{name}: arrow keys do not move the cursor of drawing {i}', first)
    unnamed = browser.evaluate(
        '''[...document.querySelectorAll('input, select, button, svg')].filter((one) =>
      !one.closest('label') && !one.getAttribute('aria-label') && !one.textContent.trim()).length'''
    )
    expect(unnamed == 0, f'{name}: {unnamed} controls or drawings without a name')


def check_shares(browser, name, objects):
    """The shares of the page's functions equal those of the reference, for all rows of samples."""
    samples = [one for one in objects if one.get('type') == 'sample'][:4]
    cases = [(row, form, k) for sample in samples for row in sample['rows']
             for form in float_reference.FORMATS if form != 'f32' for k in (None, 0, 7, 24)]
    cases = cases[::max(1, len(cases) // 3000)]
    made = browser.evaluate('''((cases) => cases.map(([row, format, k]) => {
      const shift = k === null || !row.kind.endsWith('_grad') ? 0 : k - Math.log2(row.scale);
      const one = window.report.formats.find((each) => each.name === format);
      const counts = window.report.zoneCounts(row, one, shift);
      return [counts.nonzero, counts.flushed, counts.subnormal, counts.normal, counts.overflow];
    }))''' + f'({json.dumps(cases)})')
    wrong = []
    for (row, form, k), got in zip(cases, made):
        expected = float_reference.zone_counts(row, form, k)
        if any(abs(a - b) > 1e-6 * max(1, b) for a, b in zip(got, expected)):
            wrong.append(f'{row["kind"]} {row["name"]} {form} k={k}: {got}, expected {expected}')
    expect(not wrong, f'{name}: {len(wrong)} of {len(cases)} shares differ', '\n'.join(wrong[:5]))


def percent_of(text):
    """Returns [least, largest] of what a percentage on the page stands for."""
    number = float(re.search(r'[\d.]+', text).group())
    if text.startswith('<'):
        return 0, number
    if text.startswith('>'):
        return number, 100
    return number - 0.051, number + 0.051


def check_slider(browser, name, objects):
    """Moving the slider of the loss scale recomputes the shares of each row in place."""
    sampled = [one for one in objects if one.get('type') == 'sample' and one['run'] == 0]
    steps = [
        one['step'] for one in sampled if any(row['kind'] == 'weight_grad' for row in one['rows'])
    ]
    if not steps:
        return
    for k in (0, 3, 20):
        found = browser.evaluate('''((k) => {
          const panel = document.querySelector('#panel-3');
          panel.querySelector('input[value=weight_grad]').click();
          const steps = panel.querySelector('input[aria-label=Step]');
          steps.value = steps.max;
          steps.dispatchEvent(new Event('input'));
          const scale = panel.querySelector('input[aria-label="Loss scale"]');
          scale.value = k;
          scale.dispatchEvent(new Event('input'));
          const texts = [...panel.querySelectorAll('.heatmap text')].map((one) => one.textContent);
          return [panel.querySelector('.body > div > .summary').textContent, texts];
        })''' + f'({k})')
        summary, texts = found
        flushed = [0.0, 0.0, 0.0]
        for row in rows_of(objects, 0, max(steps), 'weight_grad'):
            nonzero, zero, _, _, over = float_reference.zone_counts(row, 'f16', k)
            flushed = [flushed[0] + nonzero, flushed[1] + zero, flushed[2] + over]
            shown = texts[texts.index(row['name'], 1):]
            low = shown.index(row['dtype'])
            for text, part in zip(shown[low + 1:low + 3], (zero, over)):
                least, most = percent_of(text)
                share = 100 * part / nonzero if nonzero else 0
                expect(
                    least <= share <= most, f'{name}: {row["name"]} at 2^{k}: the page shows '
                    f'{text}, expected {share:.3f} %')
        if flushed[0]:
            least, most = percent_of(summary.split(': ')[1])
            share = 100 * flushed[1] / flushed[0]
            expect(least <= share <= most, f'{name}: sum at 2^{k}: {summary}, expected {share} %')


def check_controls(browser, name):
    """Each choice of kind, format, band and step draws without an error."""
    browser.evaluate('''(() => {
      const inputs = () => [...document.querySelectorAll(
        '#panel-3 input[type=radio], #panel-3 input[type=checkbox]')];
      for (let i = 0; i < inputs().length; ++i) inputs()[i].click();
      for (const one of document.querySelectorAll('input[type=range]'))
        for (const value of [one.max, one.min]) {
          one.value = value;
          one.dispatchEvent(new Event('input'));
        }
      for (const one of document.querySelectorAll('select:not(#run-select)'))
        for (const option of [...one.options].slice(0, 6)) {
          one.value = option.value;
          one.dispatchEvent(new Event('change'));
        }
      for (const one of document.querySelectorAll('details')) one.open = true;
    })()''')
    wrong = browser.evaluate(CLIPPED)
    expect(not wrong, f'{name}: labels with other choices', '\n'.join(wrong))


def check_sample_count(browser, name, objects, number):
    """The head says how many of the sampled steps the page has."""

    def steps(kind):
        return {
            one['step']
            for one in objects if one.get('type') == kind and one.get('run', 0) == number and
            (kind == 'sample' or one.get('sampled'))
        }

    sampled, kept = steps('step'), steps('step') & steps('sample')
    facts = browser.evaluate('document.getElementById("facts").textContent')
    told = f'{len(kept)} of {len(sampled)}, so' if kept != sampled else f'{len(sampled)}Started'
    expect(f'Sampled steps{told}' in facts, f'{name}: sampled steps of run {number}', facts)


def check_runs(browser, name, objects, filled):
    """Choosing each run shows it; `filled`: with data in all panels."""
    runs = [one for one in objects if one.get('type') == 'run']
    if len(runs) < 2:
        return
    for number, run in enumerate(runs):
        browser.evaluate('''((value) => {
          const list = document.getElementById('run-select');
          list.value = value;
          list.dispatchEvent(new Event('change'));
        })''' + f'({number})')
        title = browser.evaluate('document.getElementById("title").textContent')
        expect(run['title'] in title and run['level'] in title, f'{name}: run {number}', title)
        check_sample_count(browser, name, objects, number)
        check_panels(browser, f'{name}, run {number}')
        if filled:
            check_filled(browser, f'{name}, {run["level"]}')


def check_page(browser, path, name, filled=False):
    text = Path(path).read_text(encoding='utf-8')
    objects = data_of(text)
    seconds = open_page(browser, path, name)
    expect(seconds <= MOST_SECONDS,
           f'{name}: opening took {seconds:.2f} s of CPU time, expected at most {MOST_SECONDS}')
    title = browser.evaluate('document.getElementById("title").textContent')
    first = next(one for one in objects if one.get('type') == 'run')
    expect(first['title'] in title, f'{name}: the title', title)
    check_sample_count(browser, name, objects, first.get('run', 0))
    check_panels(browser, name)
    check_training(browser, name, objects)
    check_slider(browser, name, objects)
    check_labels(browser, name)
    check_keyboard(browser, name)
    check_shares(browser, name, objects)
    check_lesson(browser, name)
    check_themes(browser, name)
    check_controls(browser, name)
    check_runs(browser, name, objects, filled)
    check_quiet(browser, name, path)
    size = len(DATA.sub('', text).encode('utf-8'))
    expect(size <= MOST_SIZE, f'{name}: {size} bytes without data, expected at most {MOST_SIZE}')
    print(f'{name}: complete after {seconds:.2f} s of CPU time, {size} bytes without data')


# ---- pages of the samples -----------------------------------------------------------------------


def call(command):
    """Runs a program; returns True if it succeeded."""
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    expect(run.returncode == 0, ' '.join(map(str, command)), run.stdout + run.stderr)
    return run.returncode == 0


def check_samples(browser, programs, folder):
    """Trains each net at all levels with --report, and checks the page of the six runs."""
    for net, (program, arguments) in TRAININGS.items():
        files = [Path(folder) / f'{net}_{level}.jsonl' for level in LEVELS]
        made = [
            call([programs / program, *arguments.split(), '--opt-level', level, '--threads', '1',
                  '--quiet', '--report', path.with_suffix('.html')])
            for level, path in zip(LEVELS, files)
        ]
        page = Path(folder) / f'{net}.html'
        if not all(made) or not call([programs / 'report', *files, page]):
            continue
        check_page(browser, page, page.name, filled=True)
        size = page.stat().st_size
        expect(size <= MOST_BYTES, f'{net}: the page has {size} bytes')


# ---- number explorer ----------------------------------------------------------------------------


def check_numbers(browser):
    """Codes, values, neighbours and sums of many numbers, by the page's functions."""
    values = float_reference.test_values()
    pairs = list(zip(values, values[7:] + values[:7]))
    written = [[float_reference.text_of(a), float_reference.text_of(b)] for a, b in pairs]
    made = browser.evaluate('''((pairs) => {
      const {formats, encode, decode, neighbours, addRounded} = window.report;
      const text = (x) => Object.is(x, -0) ? '-0' : String(x);
      return pairs.map(([a, b]) => formats.map((format) => {
        const x = Number(a), code = encode(format, x);
        return [format.name, String(code), text(decode(format, code)),
          ...neighbours(format, x).map((one) => text(one + 0)),
          text(addRounded(format, x, Number(b)).sum)];
      }));
    })''' + f'({json.dumps(written)})')
    wrong = []
    for (a, b), by_format in zip(pairs, made):
        for form, *got in by_format:
            expected = float_reference.facts(form, a, b)
            if got != expected:
                wrong.append(f'{a!r}, {b!r} in {form}: {got}, expected {expected}')
    expect(not wrong, f'{len(wrong)} numbers are wrong', '\n'.join(wrong[:8]))


def check_codes(browser):
    """Decoding each code of the small formats, and encoding it again."""
    for form in ('f16', 'bf16', 'f8e4m3', 'f8e5m2'):
        codes = float_reference.all_values(form)
        made = browser.evaluate('''(({name, count}) => {
          const format = window.report.formats.find((one) => one.name === name);
          return Array.from({length: count}, (_, code) => {
            const x = window.report.decode(format, code);
            const back = window.report.encode(format, x);
            return [Object.is(x, -0) ? '-0' : String(x), Number.isNaN(x) || back === code];
          });
        })''' + f'({json.dumps({"name": form, "count": len(codes)})})')
        wrong = [
            code for code, ((text, back), value) in enumerate(zip(made, codes))
            if not back or not float_reference.same(float(text), value)
        ]
        expect(not wrong, f'{form}: {len(wrong)} codes are decoded wrongly', wrong[:8])


TYPED = {
    '0.1': 0.1,
    '-2^-24': -2.0**-24,
    '2^-25': 2.0**-25,
    '3*2^-14': 3 * 2.0**-14,
    '65519.99': 65519.99,
    '65520': 65520.0,
    '70000': 70000.0,
    '448': 448.0,
    '464': 464.0,
    '464.001': 464.001,
    '1e-40': 1e-40,
    'inf': float('inf'),
    '-inf': float('-inf'),
    'nan': float('nan'),
    '0x3c01': 1 + 2.0**-10,
    '0x0001': 2.0**-24,
    '0b0111110000000000': float('inf'),
    '1/3': 1 / 3,
    '.5': 0.5,
    '-0': -0.0
}
REFUSED = ('', 'zero', '0x10000', '1e', '2^^3', '0x', '1,5')


def check_explorer(browser):
    """What is typed is shown, in all formats."""
    kind = '''((text) => {
      const field = document.getElementById('explorer-a');
      field.value = text;
      field.dispatchEvent(new Event('input'));
      const cells = [...document.querySelectorAll('#panel-10 table:first-of-type tr')].slice(1, 6);
      return cells.map((row) => [...row.children].map((cell) => cell.textContent));
    })'''
    for text, value in TYPED.items():
        for row in browser.evaluate(f'{kind}({json.dumps(text)})'):
            form, bits, digits = row[0], row[1], row[2]
            code = float_reference.encode(form, value)
            holds = (int(bits, 2) == code == int(digits, 16)
                     and float_reference.same(float(row[3]), float_reference.decode(form, code)))
            expect(holds, f'the explorer shows {text} in {form} wrongly', row)
    for text in REFUSED:
        shown = browser.evaluate(f'{kind}({json.dumps(text)}).length + " " + '
                                 'document.querySelectorAll("#panel-10 [role=alert]").length')
        expect(shown == '0 1', f'the explorer takes {text!r}', shown)


def check_damaged(browser, folder):
    """Pages without a readable run say so, and say nothing else."""
    template = assemble(ROOT / 'measure' / 'report' / 'page')
    for body in ('', 'no JSON', '[1]\n3\nnull', '{"type":"policy","levels":[],"ops":[]}'):
        path = Path(folder) / 'damaged.html'
        path.write_text(
            template.replace('@DATA@', '<script id="data" type="application/x-ndjson">'
                             f'{body}</script>'), encoding='utf-8')
        browser.open(path)
        browser.evaluate('window.report.ready')
        text = browser.evaluate('document.querySelector("main").textContent')
        expect('no run' in text and not browser.messages, f'a file with {body!r}', text)


def check_old_browser(browser, path):
    """Without DecompressionStream the page says which browsers can open it."""
    script = browser.call('Page.addScriptToEvaluateOnNewDocument',
                          source='delete window.DecompressionStream')
    browser.open(path)
    browser.evaluate('window.report.ready')
    text = browser.evaluate('document.querySelector("main").textContent')
    expect('Firefox 113' in text and not browser.messages, 'a browser that cannot decompress', text)
    browser.call('Page.removeScriptToEvaluateOnNewDocument', identifier=script['identifier'])


def main(paths):
    if find_browser() is None:
        skip('Chromium is not installed')
    programs = None
    if paths[:1] == ['--samples']:
        programs, paths = Path(paths[1]), paths[2:]
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        if not paths:
            for number, kind in enumerate(report_data.KINDS):
                path = Path(folder) / f'{kind}.html'
                path.write_text(page_of(kind, number % 2 == 1), encoding='utf-8')
                paths.append(path)
            check_damaged(browser, folder)
            check_old_browser(browser, paths[1])
        for path in paths:
            check_page(browser, path, Path(path).name)
        if programs:
            check_samples(browser, programs, folder)
        open_page(browser, paths[0], 'explorer')
        check_numbers(browser)
        check_codes(browser)
        check_explorer(browser)
        check_quiet(browser, 'explorer', paths[0])
    expect.verdict()


main(sys.argv[1:])
