// What a worker writes to the watchdog: one line of JSON for a timer that begins or is taken back, as PyTorch's
// FileTimerClient writes it. Pure; the lines are bytes from outside.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::inline launch {

// PIPE_BUF, which the client keeps to as well: what is longer does not reach a pipe as a whole.
inline constexpr std::size_t kMaxTimerLine = 4096;
inline constexpr int kTimerVersion = 1;

// A timer of a process, known by the process and the scope.
struct TimerRequest {
    pid_t pid = 0;
    std::string scope;    // as the worker calls it, any bytes
    double expires = -1;  // seconds since 1970; below 0: it is taken back
    int signal = 0;       // what the process gets if it expires; 0 or less: nothing

    bool is_release() const { return expires < 0; }
    bool operator==(const TimerRequest&) const = default;
};

// The request, or what is wrong with the line.
std::variant<TimerRequest, std::string> parse_timer_request(std::string_view line);

// The lines in what a pipe brings, piece by piece. One over kMaxTimerLine is told by its beginning, once, and passed over
// up to its end; so no more than that is kept.
class TimerLines {
  public:
    // `take` is called with each line, without its newline.
    void push(std::string_view bytes, const std::function<void(std::string_view)>& take);

  private:
    std::string begun_;
    bool passes_over_ = false;
};

}  // namespace ddprun::inline launch
