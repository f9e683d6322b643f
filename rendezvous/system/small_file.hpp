// read_small_file() reads a small file whole, within a bound; replace_file() writes one so that a reader sees
// the old content or the new. Blocking, short; no function throws on what the file system does.
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

// Reads the bytes of a regular file (files of /proc are). Errors are the system's, EINVAL for another kind of
// file (a FIFO must not hold the launcher up), and Errc::limit_exceeded for more than `max_bytes`.
boost::system::result<std::string> read_small_file(const std::filesystem::path& path, std::size_t max_bytes);

// Returns the text of a file that people edited elsewhere as this system writes texts. The result is UTF-8
// without a mark, with plain newlines and blanks; of UTF-16 ASCII is kept, the rest becomes '?'. Pure.
std::string edited_text(std::string text);

// kFreshFile: how the name of a file begins that replace_file() has made and that has not taken its place
// yet.
inline constexpr std::string_view kFreshFile = ".ddprun-";

// Writes the bytes at `path`: into a new file beside it, which is synced to the disk and then takes the name.
// A new file is for its owner alone; a file that replaces one of this user's gets the same permissions.
//
// - A symbolic link is followed if this user or root owns both the link and its folder; any other link is
//   itself replaced.
// - A file without write permission is refused.
// - A writable file that cannot be replaced (its folder is another user's, it is a mount) is overwritten in
//   place and keeps its permissions.
// - A path that is this process's stdout or stderr (/dev/stdout) gets the bytes appended, whatever kind of
//   file it is.
// - Another file that is not regular (a FIFO that has a reader) is written to directly; a reader that takes
//   nothing is waited for.
// - A file of another user in a folder where all users may make names, as in /tmp, is refused (EPERM).
//
// Leaves no new file behind when it fails.
boost::system::error_code replace_file(const std::filesystem::path& path, std::string_view bytes);

// --- the owner of a path: what another user has made, or may change, is not this user's, whatever its name

// Says whether other users may write to the file: all of them, or its group. A group with its owner's number
// does not count: the private group of a user with umask 002. The members of other groups cannot be asked for
// at a bounded cost.
bool others_may_write(const struct stat& info);

// Returns the owners of the file (a link by its name, and its target) and of their folder. Behind a folder
// where others may make names (/tmp, a group's, another user's), adds the owners of every part of the path:
// each could lead it elsewhere later. Parts in front of such a folder, and parts that do not exist, add none.
std::vector<uid_t> owners_of(const std::filesystem::path& path);

// Returns the first owner (owners_of) that is neither this user, nor root, nor one of the `trusted`. Files
// that are executed, entered, or read as this user's own records must have no such owner. Where this user
// namespace lacks root, as in some containers, the unknown user (65534) counts as root, except behind a
// folder where others may make names.
std::optional<uid_t> foreign_owner(const std::filesystem::path& path, const std::vector<uid_t>& trusted = {});

// Returns the first folder on the way to the path in which another user than root can give a name of that way
// to something else: the folder is that user's, or lets others make names and take each other's. Nothing:
// what the path leads to stays what it is until this user or root changes it.
std::optional<std::filesystem::path> changeable_by_others(const std::filesystem::path& path);

// Says whether the path leads to an open folder, or to what is or may come to be in one: where other users
// may make names. Open are /tmp and all below it, a folder that a group writes to (but see others_may_write),
// and another user's folder.
bool is_in_open_folder(const std::filesystem::path& path);

// Opens a file with these flags, close-on-exec; a new file gets `mode`. Fails with EPERM for another user's
// link, and for another user's file where all users may make names, as in /tmp.
boost::system::result<OwnedDescriptor> open_own_file(const std::filesystem::path& path, int flags,
                                                     unsigned mode);

// Returns the error with which replace_file would fail, as far as it can be known before. Tries with a file
// that is removed at once.
boost::system::error_code try_replace(const std::filesystem::path& path);

}  // namespace base
}  // namespace ddprun
