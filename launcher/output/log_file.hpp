// LogFile: one log file of bounded size that never gets in anybody's way.
//
// What cannot be written (full disk, quota, file-size limit, no permission to create the file) is dropped and
// counted; the next write is tried again. Used by one thread, the pump's; never throws.
//
// With a limit the file is at all times: head, one line that says how many bytes were left out, tail. When it
// is full the older half of the tail is taken out, so the file is read from top to bottom like any other,
// also after a crash. Tail and head begin and end at line ends where one is near.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline launch {

class LogFile {
  public:
    // As pwrite(2). Tests put failures in.
    using WriteFunction = std::function<ssize_t(int, const void*, std::size_t, off_t)>;

    // The head takes a quarter of the limit, but no more than this.
    static constexpr std::uint64_t kMaxHead = std::uint64_t{1} << 20;

    // Creates the file or empties it. `limit` 0: none.
    LogFile(std::string path, std::uint64_t limit, WriteFunction write = ::pwrite);
    LogFile(const LogFile&) = delete;
    LogFile& operator=(const LogFile&) = delete;
    ~LogFile();

    void write(std::string_view bytes);

    // Shows an unfinished line at the end of the file; the next write takes its place.
    void show_unfinished(std::string_view text);

    const std::string& path() const { return path_; }

    // Bytes that were not written because of errors, and the errno of the last one.
    std::uint64_t dropped() const { return dropped_; }
    int error_number() const { return error_number_; }

  private:
    bool take_out_middle();
    void append(std::string_view bytes);
    // Whether all of it was written; `offset` is where the next bytes go then.
    bool write_at(std::uint64_t& offset, std::string_view bytes);
    void cut();
    std::uint64_t head_limit() const;
    std::uint64_t line_end_before(std::uint64_t offset) const;
    std::uint64_t line_start_after(std::uint64_t offset) const;
    bool move_down(std::uint64_t from, std::uint64_t to);

    std::string path_;
    std::uint64_t limit_;
    WriteFunction write_;
    OwnedDescriptor fd_;
    std::uint64_t size_ = 0;        // of what was written for good
    std::uint64_t shown_ = 0;       // how far the file reaches beyond that
    std::uint64_t head_ = 0;        // where the head ends, once something was left out
    std::uint64_t tail_start_ = 0;  // where the tail begins, likewise
    std::uint64_t left_out_ = 0;
    std::uint64_t dropped_ = 0;
    int error_number_ = 0;
};

}  // namespace ddprun::inline launch
