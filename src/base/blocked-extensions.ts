/** Extensions that mail systems commonly block, so that mail with such a file would be refused anyway. */
export const BLOCKED_EXTENSIONS: readonly string[] = (
  'ade adp apk appx bat chm cmd com cpl dll dmg exe hta ins isp iso jar js jse lib lnk mde msc msi msp mst nsh pif ps1 scr ' +
  'sct shb sys vb vbe vbs vhd vxd wsc wsf wsh'
).split(' ');
