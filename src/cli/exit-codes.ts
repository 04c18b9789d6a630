/** The exit codes of the command line, as sysexits.h has them. */
export const exitCodes = {
  ok: 0,
  usage: 64,
  data: 65,
  noInput: 66,
  unavailable: 69,
  software: 70,
  cannotCreate: 73,
  output: 74,
  noPermission: 77,
  config: 78,
} as const;

/** Ends a command with this exit code. The message is the line for people. */
export class Refusal extends Error {
  readonly exitCode: number;
  readonly cure: string | null;

  constructor(exitCode: number, message: string, cure: string | null = null) {
    super(message);
    this.name = 'Refusal';
    this.exitCode = exitCode;
    this.cure = cure;
  }
}
