// These files are small enough to be held whole: they are read with a bound, and written so that a reader
// sees the old or the new one. Blocking, short; nothing here throws on what the file system does.
#pragma once

#include <sys/stat.h>

#include <boost/system/error_code.hpp>
#include <boost/system/result.hpp>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun {
inline namespace base {

// Reads the bytes of a regular file (those of /proc are), or says why not: the system's error, EINVAL for
// something that is no regular file (a FIFO must not hold the launcher up), Errc::limit_exceeded for more
// than `max_bytes`.
boost::system::result<std::string> read_small_file(const std::filesystem::path& path, std::size_t max_bytes);

// Returns the text of a file that people have edited somewhere as this system writes texts: in UTF-8 without
// a mark at its beginning (of UTF-16 what is ASCII, and '?'), with lines that end in a newline alone, and
// plain blanks. Pure.
std::string edited_text(std::string text);

// Puts the bytes at `path`: into a new file beside it, which is synced to the disk and then takes the name.
// It is for its owner alone, but has the permissions of a file of ours whose place it takes.
//
// A symbolic link is followed if it is ours, in a folder that is ours (or root's, both); one that somebody
// else may have put there is replaced itself. A file without permission to write is refused. Where a writable
// file cannot be replaced (its folder belongs to somebody else, it is a mount) it is written over, and stays
// as open as it is. What this process has as its stdout or stderr (/dev/stdout), whatever that is, is written
// behind what is there, and what is no regular file (a FIFO that has a reader) as it is; a reader who takes
// nothing is waited for. Nothing is written into what another user has where everybody may make names, as in
// /tmp (EPERM). Leaves nothing behind when it fails.
boost::system::error_code replace_file(const std::filesystem::path& path, std::string_view bytes);

// --- in whose hand a name is: what another user has made, or may change, is not this user's, whatever it is
// called

// others_may_write: everybody may, or the file's group, unless that has its owner's number, as the private
// group of a user has who works with umask 002. Who is in another group cannot be asked at a bound cost.
bool others_may_write(const struct stat& info);

// Returns who has the file, a link by its name, and their folder; and behind a folder where others may make
// names, like /tmp, one of a group or another user's, all that the name leads through: whoever has a part of
// that can lead it elsewhere later. None that is not there.
std::vector<uid_t> owners_of(const std::filesystem::path& path);

// Returns the first of these that is neither this user, nor root, nor one of the `trusted`. What is executed,
// entered, or read as a record of this user's own has none. Where this user namespace lacks root, as in some
// containers, what the system shows as an unknown user's (65534) may be root's, but behind a folder where
// others may make names.
std::optional<uid_t> foreign_owner(const std::filesystem::path& path, const std::vector<uid_t>& trusted = {});

// Says whether a name leads to a file, not a folder, that is or may come to be where somebody else than this
// user and root may make names: in or below /tmp, a folder that a group writes to, or one that is another
// user's. The group of a user alone, which has that user's number, is none.
bool is_in_open_folder(const std::filesystem::path& path);

// Opens a file to write behind what is in it, close-on-exec. It fails with EPERM for another user's link, and
// for another user's file where everybody may make names, as in /tmp.
boost::system::result<OwnedDescriptor> open_own_file(const std::filesystem::path& path, int flags,
                                                     unsigned mode);

// Says why replace_file would fail, as far as can be told before; tries it with a file that is removed at
// once.
boost::system::error_code try_replace(const std::filesystem::path& path);

}  // namespace base
}  // namespace ddprun
