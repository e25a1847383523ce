#!/bin/busybox sh
# The guest's first process, in its initial file system: loads the modules and lays a file system in memory over
# the host's, which is read-only. start.sh goes on from there.
export PATH=/bin
/bin/busybox mkdir -p /proc /sys /dev /host /layer /root
/bin/busybox mount -t proc proc /proc
/bin/busybox --install -s /bin
. /settings

give_up() {
  echo "vm: $1"
  echo b >/proc/sysrq-trigger
}

mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r module; do
  insmod "/modules/$module" || give_up "cannot load $module"
done </modules/order

mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose host /host ||
  give_up 'no file system of the host'
mount -t tmpfs -o mode=755 layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/host,upperdir=/layer/upper,workdir=/layer/work overlay /root || give_up 'no overlay'

for folder in proc sys dev; do
  mount -o move /$folder /root/$folder
done
mkdir -p /root/dev/shm /root/dev/pts
mount -t tmpfs -o mode=1777 shm /root/dev/shm
mount -t devpts pts /root/dev/pts
mount -t tmpfs -o mode=755 run /root/run
# The overlay has no files without names (O_TMPFILE), so /tmp is a file system in memory even where the repository is
# below it.
repository=/layer/repository
case $directory/ in
  /tmp/*) mkdir $repository && mount -o bind "/root$directory" $repository ;;
esac
mount -t tmpfs -o mode=1777 tmp /root/tmp
if [ -d $repository ]; then
  mkdir -p "/root$directory" && mount -o bind $repository "/root$directory" || give_up 'no repository'
fi
mkdir /root/run/tally-vm
cp /settings /command /root/run/tally-vm
exec switch_root /root /bin/sh "$directory/tests/vm/start.sh"
