// The whole recording in one strip: the number of calls over time, the matches of a search, and the visible part.

const HEIGHT = 46;

export class Minimap {
  constructor(canvas, timeline, colours, activity) {
    Object.assign(this, { canvas, timeline, colours, activity, hits: [] });
    this.context = canvas.getContext("2d");
    canvas.addEventListener("pointerdown", (event) => this.#press(event));
    canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) this.#go(event); });
  }

  #press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.#go(event);
  }

  /** Centres the visible part at the pointer. */
  #go(event) {
    const { from, to } = this.timeline.view;
    const middle = (event.offsetX / this.canvas.clientWidth) * this.timeline.length;
    this.timeline.show(middle - (to - from) / 2, middle + (to - from) / 2);
  }

  draw() {
    const { canvas, context, colours } = this;
    const width = canvas.clientWidth;
    const ratio = devicePixelRatio;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = HEIGHT * ratio;
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, HEIGHT);
    this.#bars(this.activity, width, HEIGHT - 6, colours.of("quiet"));
    if (this.hits.length > 0) {
      context.fillStyle = colours.of("buffered");
      this.hits.forEach((count, part) => {
        if (count > 0) context.fillRect((part / this.hits.length) * width, HEIGHT - 4, Math.max(2, width / this.hits.length), 4);
      });
    }
    const { from, to } = this.timeline.view;
    const length = Math.max(this.timeline.length, 1);
    const [left, right] = [(from / length) * width, (to / length) * width];
    context.globalAlpha = 0.14;
    context.fillStyle = colours.of("accent");
    context.fillRect(left, 0, Math.max(2, right - left), HEIGHT);
    context.globalAlpha = 1;
    context.fillRect(left, 0, 1.5, HEIGHT);
    context.fillRect(Math.max(left + 1, right - 1.5), 0, 1.5, HEIGHT);
  }

  #bars(counts, width, height, colour) {
    const highest = Math.max(1, ...counts);
    const step = width / counts.length;
    this.context.fillStyle = colour;
    this.context.globalAlpha = 0.55;
    counts.forEach((count, part) => {
      const tall = (Math.sqrt(count) / Math.sqrt(highest)) * (height - 4);
      if (count > 0) this.context.fillRect(part * step, height - tall, Math.max(1, step), tall);
    });
    this.context.globalAlpha = 1;
  }
}
