#include "launcher/output/console.hpp"

#define SPDLOG_HEADER_ONLY
#define FMT_HEADER_ONLY
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace ddprun {
namespace {

// Writes to stderr in pieces that a pipe takes whole once it takes anything, so that no write blocks.
class PatientSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t text;
        formatter_->format(message, text);
        std::string_view rest(text.data(), text.size());
        while (!rest.empty() && takes_something()) {
            const ssize_t count =
                ::write(STDERR_FILENO, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
            if (count < 0 && errno != EINTR) return;
            rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        }
    }
    void flush_() override {}

  private:
    bool takes_something() {
        using Clock = std::chrono::steady_clock;
        const auto deadline = Clock::now() + patience_;
        pollfd writable{STDERR_FILENO, POLLOUT, 0};
        int count = 0;
        do {
            // Signals do not begin the wait anew: the user may send one after the other.
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
            count = ::poll(&writable, 1, std::max(0, static_cast<int>(left.count())));
        } while (count < 0 && errno == EINTR);
        if (count == 0) patience_ = {};
        return count > 0;
    }

    std::chrono::milliseconds patience_ = Console::kPatience;
};

}  // namespace

class Console::Impl {
  public:
    Impl() : logger_("ddprun", std::make_shared<PatientSink>()) {
        logger_.set_formatter(std::make_unique<spdlog::pattern_formatter>("ddprun: %v"));
        // A broken stderr has nowhere left to be reported.
        logger_.set_error_handler([](const std::string&) {});
    }

    void say(std::string_view line) { logger_.info(spdlog::string_view_t(line.data(), line.size())); }

  private:
    spdlog::logger logger_;
};

Console::Console() : impl_(std::make_unique<Impl>()) {}
Console::~Console() = default;

void Console::say(std::string_view text) {
    while (!text.empty()) {
        auto end = text.find('\n');
        impl_->say(text.substr(0, end));
        if (end == std::string_view::npos) return;
        text.remove_prefix(end + 1);
    }
}

}  // namespace ddprun
