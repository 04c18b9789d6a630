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
