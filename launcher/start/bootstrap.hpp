// This is how a relay comes to a host: the line for its shell, and what that answers first. Pure.
//
//   ddprun-relay have      by the relay itself: it takes frames from now on
//   ddprun-relay need      by the shell: neither the file nor the ddprun on PATH is of this build; it takes the bytes of the
//                          file, and the relay that it then is says `have`
//
// Whatever else a host's shell says before is passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun::inline launch {

inline constexpr std::string_view kRelayFlag = "--relay";
inline constexpr std::string_view kHaveLine = "ddprun-relay have";
// A relay ends so that is of another build than it was asked for. An older ddprun does not know the flag, and ends with 2.
inline constexpr int kExitOtherBuild = 89;
// A shell may say so much before one of the lines above.
inline constexpr std::size_t kMaxNoise = 64 * 1024;

struct BootstrapRequest {
    std::string file;      // of the launcher, where it may be on the host, too
    std::string identity;  // of its build; letters, digits, '.' and '-'
    std::uint64_t size = 0;
    bool ships = true;
};

// One word for `COMMAND HOST LINE`: any shell runs it, which may be one of csh's kind.
std::string bootstrap_line(const BootstrapRequest& request);

// The text as one word of a shell.
std::string shell_quoted(std::string_view text);

// Reads the lines before the frames.
class Handshake {
  public:
    enum class Word { none, have, need, too_much };

    // The next word in what has come.
    Word push(std::string_view bytes);

    // Returns what came behind `have`.
    std::string take_rest() { return std::move(held_); }

    // The last line that was none of them, for an error.
    const std::string& noise() const { return noise_; }

  private:
    std::string held_;
    std::string noise_;
    std::size_t passed_ = 0;
};

}  // namespace ddprun::inline launch
