/**
 * CPU time of this process so far, in ms: for limits that tell work that grows with the square of its input from work that does not.
 * The time on the wall is also that of whatever else the machine, or its host, has to do.
 */
export function cpuNow(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}
