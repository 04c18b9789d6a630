/** Counts the turns of the event loop. */
export class LoopTurns {
  count = 0;
  private isOver = false;

  constructor() {
    this.next();
  }

  end(): void {
    this.isOver = true;
  }

  private next(): void {
    setImmediate(() => {
      this.count++;
      if (!this.isOver) this.next();
    });
  }
}
