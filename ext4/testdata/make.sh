#!/bin/sh
# Makes the images in this folder: sh make.sh. Needs root, e2fsprogs, attr, acl and loop mounts.
# The tests that look into them are in image_test.go.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'umount "$work/mnt" 2>/dev/null || :; rm -rf "$work"' EXIT
mkdir "$work/mnt"

fill() {
	mkdir -p dir/sub/deep many
	printf 'hello, world\n' >hello.txt
	: >empty
	yes 0123456789abcdef | head -c 20000 >twenty
	ln hello.txt dir/hard
	ln -s hello.txt fast
	ln -s "$(printf '%0100d' 7)" slow
	ln -s /dir/sub absolute
	ln -s ../dir/../../../hello.txt dir/above
	ln -s loop2 loop1
	ln -s loop1 loop2
	ln -s nothing dangling
	printf 'deep\n' >dir/sub/deep/file
	mkfifo -m 600 fifo
	mknod -m 600 char c 5 1
	mknod -m 640 block b 259 70000
	chown 65536:2147483653 twenty
	chmod 6711 twenty
	touch -h -d '2020-02-03T04:05:06Z' hello.txt fast
	# data in every other block: ten extents, or pointers with zeros between them
	for i in 1 3 5 7 9 11 13 15 17 19; do
		head -c 1024 twenty | dd of=holes bs=1024 seek=$i conv=notrunc status=none
	done
	truncate -s 30000 holes
}

# The name of every file is in the hash order of no version.
many() {
	for i in $(seq 100); do : >"many/name-$i-$(printf '%050d' "$i")"; done
}

attributes() {
	setfattr -n user.note -v small hello.txt
	setfattr -n user.large -v "$(printf '%0300d' 1)" hello.txt
	setfattr -n security.test -v s -h fast
	setfacl -m u:1234:rw dir
	setfacl -d -m g:99:r dir
	fallocate -l 8192 unwritten
	printf 'begin' | dd of=unwritten conv=notrunc status=none
}

# No devices and no links that lead nowhere: fit for fstest.TestFS.
plain() {
	mkdir -p dir/sub/empty
	printf 'hello, world\n' >hello.txt
	yes 0123456789abcdef | head -c 20000 >dir/twenty
	ln dir/twenty dir/sub/hard
	ln -s ../hello.txt dir/up
	ln -s /dir/sub absolute
	truncate -s 5000 dir/sub/hole
}

image() { # NAME SIZE ARGS... -- COMMANDS...
	name=$1 size=$2
	shift 2
	args=
	while [ "$1" != -- ]; do args="$args $1"; shift; done
	shift
	truncate -s "$size" "$work/$name.img"
	mke2fs -q -F -U 11111111-2222-3333-4444-555555555555 -E hash_seed=66666666-7777-8888-9999-aaaaaaaaaaaa \
		-L "$name" $args "$work/$name.img"
	mount -o loop -t ext4 "$work/$name.img" "$work/mnt"
	(cd "$work/mnt" && for command in "$@"; do $command; done)
	umount "$work/mnt"
	e2fsck -fn "$work/$name.img" >/dev/null
	gzip -9nc "$work/$name.img" >"$here/$name.img.gz"
}

image ext4 512K -t ext4 -b 1024 -N 256 -O ^has_journal,^resize_inode -m 0 -- fill many attributes
image ext2 512K -t ext2 -b 1024 -N 64 -I 128 -O ^dir_index,^resize_inode -m 0 -- fill
image inline 256K -t ext4 -b 1024 -N 48 -O inline_data,^has_journal,^resize_inode -m 0 -- fill
image plain 256K -t ext4 -b 2048 -N 48 -O ^has_journal,^resize_inode -m 0 -- plain
