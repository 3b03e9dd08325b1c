// Panel 11: eight questions on the run: predict, then reveal.

const lessonState = {run: null, questions: [], chosen: [], revealed: []};

function renderLesson(body, {run, report}) {
  if (lessonState.run !== run) Object.assign(lessonState,
    {run, questions: lessonQuestions(run, report.policy), chosen: [], revealed: []});
  const score = h('p', {class: 'summary', role: 'status'});
  const count = () => show(score, scoreText());
  const again = button('Start again', () => {
    lessonState.run = null;
    renderLesson(body, {run, report});
    body.querySelector('input').focus();
  });
  show(body, h('p', {}, 'Eight questions from the figures of this run. Choose what you expect, ' +
    'then reveal. The panels above hold what you need.'),
  h('ol', {class: 'questions'}, lessonState.questions.map((one, i) => questionNode(one, i, count))),
  score, h('div', {class: 'controls screen-only'}, again));
  count();
}

function scoreText() {
  const {questions, chosen, revealed} = lessonState;
  const done = revealed.filter(Boolean).length;
  const right = questions.filter((one, i) => revealed[i] && chosen[i] === one.right).length;
  return done === 0 ? 'Nothing is revealed yet.' :
    `${right} of ${plural(done, 'prediction')} right.`;
}

function questionNode(one, i, count) {
  const {chosen, revealed} = lessonState;
  const answer = h('div', {class: 'answer', 'aria-live': 'polite'});
  const inputs = one.options.map((_, k) => h('input', {type: 'radio', name: `question${i}`,
    value: k, checked: chosen[i] === k, change: () => (chosen[i] = k, settle())}));
  const options = one.options.map((text, k) => h('label', {}, inputs[k], h('span', {}, text)));
  const reveal = button('Reveal', () => (revealed[i] = true, settle(), count()));
  const settle = () => {
    reveal.disabled = revealed[i] || chosen[i] === undefined;
    if (!revealed[i]) return;
    for (const input of inputs) input.disabled = true;
    const hit = chosen[i] === one.right;
    options[one.right].classList.add('right');
    if (!hit) options[chosen[i]].classList.add('wrong');
    show(answer, h('p', {},
      h('strong', {}, hit ? 'Right. ' : `No: ${one.options[one.right]}. `), one.why));
  };
  settle();
  return h('li', {}, h('fieldset', {}, h('legend', {}, h('strong', {}, `${i + 1} `), one.text),
    h('div', {class: 'answers'}, options)), h('div', {class: 'screen-only'}, reveal), answer);
}
