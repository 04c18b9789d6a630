// Charts with a cursor and zoom (drag; double click goes back), in the place of those that the server drew. Without this file those stay.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const number = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const HEIGHT = 200;

const STEP_S = { minute: 60, hour: 3600, day: 86400 };
// A few points are seen better as points.
const FEW = 45;

// Each bar begins where the one below ends: uPlot is given sums, and tells the parts.
function sums(series) {
  let below = null;
  return series.map(({ values }) => (below = values.map((value, at) => (value ?? 0) + (below?.[at] ?? 0))));
}

// Moments that may explain what is seen.
const drawMarks = (marks) => (plot) => {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = colour('--dim');
  ctx.setLineDash([4, 4]);
  for (const at of marks) {
    const x = plot.valToPos(at, 'x', true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
};

function optionsOf({ kind, unit, step, times, series, marks = [] }, width) {
  const isBars = kind === 'bars';
  // The highest sum is drawn first, and lower ones over it.
  const order = isBars ? series.map((_, at) => series.length - 1 - at) : series.map((_, at) => at);
  const axis = {
    stroke: colour('--dim'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: '11px system-ui, sans-serif',
  };
  return {
    order,
    width,
    height: HEIGHT,
    // A day here is a day of UTC, wherever one looks at it.
    ...(step === 'day' ? { tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC') } : {}),
    hooks: { draw: [drawMarks(marks)] },
    cursor: { y: false, points: { show: !isBars } },
    scales: {
      x: { range: (_, first, last) => [first, last + (isBars ? STEP_S[step] : 0)] },
      y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] },
    },
    axes: [
      { ...axis, values: step === 'day' ? DAYS : HOURS, incrs: TICKS[step] },
      {
        ...axis,
        size: 56,
        values: (_, ticks) =>
          ticks.map((tick) =>
            Number.isInteger(tick) || unit !== '' ? `${number.format(tick)}${unit === '' ? '' : ` ${unit}`}` : '',
          ),
      },
    ],
    series: [
      { value: step === 'day' ? '{YYYY}-{MM}-{DD}' : '{YYYY}-{MM}-{DD} {HH}:{mm}' },
      ...order.map((at) => {
        const { name, values } = series[at];
        const paint = colour(`--c-${name}`);
        return {
          label: name,
          stroke: paint,
          width: isBars ? 0 : 1.5,
          ...(isBars ? { fill: paint, paths: uPlot.paths.bars({ size: [0.9, 60], align: 1 }) } : {}),
          points: { show: !isBars && times.length <= FEW, size: 5, fill: paint },
          value: (_, __, ___, place) =>
            place === null || values[place] == null
              ? '–'
              : `${number.format(values[place])}${unit === '' ? '' : ` ${unit}`}`,
        };
      }),
    ],
  };
}

// uPlot's forms of labels by the distance of ticks in seconds: least distance, label, what is added where the year or day changes.
const DAYS = [[86400, '{MM}-{DD}', '\n{YYYY}', null, null, null, null, null, 1]];
const HOURS = [
  [3600, '{HH}:{mm}', '\n{MM}-{DD}', null, '\n{MM}-{DD}', null, null, null, 1],
  [60, '{HH}:{mm}', '\n{MM}-{DD}', null, '\n{MM}-{DD}', null, null, null, 1],
];
// No two ticks with the same label: none within a step.
const MINUTES = [1, 2, 5, 10, 15, 30].map((n) => n * 60);
const HOUR_TICKS = [1, 2, 3, 6, 12, 24, 48].map((n) => n * 3600);
const DAY_TICKS = [1, 2, 4, 7, 14, 28, 56, 91, 182].map((n) => n * 86400);
const TICKS = { minute: [...MINUTES, ...HOUR_TICKS], hour: [...HOUR_TICKS, ...DAY_TICKS.slice(2)], day: DAY_TICKS };
const shown = new Map();

function draw(figure) {
  const plot = JSON.parse(figure.dataset.plot);
  const place = figure.querySelector('.drawn');
  const width = place.clientWidth;
  if (width === 0 || plot.times.length === 0) return;
  const { order, ...options } = optionsOf(plot, width);
  const values = plot.kind === 'bars' ? sums(plot.series) : plot.series.map(({ values: own }) => own);
  shown.get(figure)?.destroy();
  place.replaceChildren();
  figure.querySelector('.in-utc')?.remove();
  shown.set(figure, new uPlot(options, [plot.times, ...order.map((at) => values[at])], place));
}

function drawAll(root = document) {
  for (const figure of shown.keys()) if (!figure.isConnected) shown.delete(figure);
  for (const figure of root.querySelectorAll('[data-plot]')) draw(figure);
}

drawAll();
document.addEventListener('htmx:load', ({ target }) => drawAll(target.parentElement ?? document));
let waiting = 0;
addEventListener('resize', () => {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(() => drawAll());
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawAll());
