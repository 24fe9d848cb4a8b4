#!/bin/sh
# Make debian:bookworm-slim from Debian's packages, for machines that reach no image registry. As root on Debian.
set -eu
image=docker.io/library/debian:bookworm-slim
if buildah images -q "$image" >/dev/null 2>&1; then exit 0; fi
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
echo "making $image from Debian's packages ..."
unwanted="usrmerge libperl5.36 libfile-find-rule-perl libnumber-compare-perl libtext-glob-perl"
mmdebstrap -q --variant=minbase --include=usr-is-merged \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
    --customize-hook="chroot \"\$1\" apt-get purge -y -qq $unwanted >/dev/null" \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/*' \
    bookworm "$made/root.tar"
# pip trusts the authorities of this machine, which a mirror of PyPI may need.
printf '[global]\ncert = /etc/ssl/machine.crt\n' >"$made/pip.conf"
cp /etc/ssl/certs/ca-certificates.crt "$made/machine.crt"
container=$(buildah from scratch)
buildah add -q "$container" "$made/root.tar" / >/dev/null
buildah add -q "$container" "$made/pip.conf" /etc/ >/dev/null
buildah add -q "$container" "$made/machine.crt" /etc/ssl/ >/dev/null
buildah config --cmd /bin/bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
buildah commit -q "$container" "$image" >/dev/null
buildah rm "$container" >/dev/null
