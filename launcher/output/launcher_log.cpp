#include "launcher/output/launcher_log.hpp"

#define SPDLOG_HEADER_ONLY
#define FMT_HEADER_ONLY
// A thread's number would be remembered beyond the fork of --detach.
#define SPDLOG_NO_TLS
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <variant>

#include "launcher/appended_file.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/output/output_pump.hpp"
#include "launcher/process/descriptors.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// One line may be so long; only the command of a job or a path comes near it.
constexpr std::size_t kMaxLine = 16 * 1024;

using Sink = spdlog::sinks::base_sink<spdlog::details::null_mutex>;

class StderrSink : public Sink {
  public:
    OutputPump* pump = nullptr;
    bool is_line_open = false;  // of a worker, where the next line of the launcher goes

  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t text;
        formatter_->format(message, text);
        if (pump != nullptr) return pump->announce(std::string(text.data(), text.size() - 1));
        if (std::exchange(is_line_open, false)) write("\n");
        write({text.data(), text.size()});
    }
    void flush_() override {}

  private:
    // It writes in pieces that a pipe takes whole once it takes anything, so that no write blocks.
    void write(std::string_view rest) {
        while (!rest.empty() && takes_something()) {
            const ssize_t count =
                ::write(STDERR_FILENO, rest.data(), std::min<std::size_t>(rest.size(), PIPE_BUF));
            if (count < 0 && errno != EINTR) return;
            rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        }
    }

    bool takes_something() {
        // Signals do not begin the wait anew: the user may send one after the other.
        const bool is_ready =
            await_ready(STDERR_FILENO, POLLOUT, std::chrono::steady_clock::now() + timeout_);
        if (!is_ready) timeout_ = {};
        return is_ready;
    }

    std::chrono::milliseconds timeout_ = LauncherLog::kTimeout;
};

class FileSink : public Sink {
  public:
    FileSink(std::shared_ptr<AppendedFile> file, StderrSink& screen)
        : file_(std::move(file)), screen_(screen) {}

  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t text;
        formatter_->format(message, text);
        auto append = [file = file_, line = std::string(text.data(), text.size())] {
            return file->append(line);
        };
        if (screen_.pump != nullptr) return screen_.pump->run(std::move(append));
        if (const auto notice = append()) screen_.log({message.logger_name, spdlog::level::warn, *notice});
    }
    void flush_() override {}

  private:
    std::shared_ptr<AppendedFile> file_;
    StderrSink& screen_;
};

}  // namespace

class LauncherLog::Impl {
  public:
    Impl() : screen(std::make_shared<StderrSink>()), logger("ddprun", screen) {
        logger.set_formatter(std::make_unique<spdlog::pattern_formatter>(std::string(kLauncherMark) + "%v"));
        logger.set_level(spdlog::level::debug);
        // A broken stderr has nowhere left to be reported.
        logger.set_error_handler([](const std::string&) {});
    }

    void say(spdlog::level::level_enum level, std::string_view text) {
        for (const std::string_view line : lines_of(text)) {
            const std::string shown = harmless_line(line, kMaxLine);
            logger.log(level, spdlog::string_view_t(shown.data(), shown.size()));
        }
    }

    std::shared_ptr<StderrSink> screen;
    spdlog::logger logger;
    spdlog::level::level_enum of_trouble = spdlog::level::info;
};

LauncherLog::LauncherLog(Verbosity verbosity) : impl_(std::make_unique<Impl>()) { set_verbosity(verbosity); }
LauncherLog::~LauncherLog() = default;

void LauncherLog::set_verbosity(Verbosity verbosity) {
    impl_->of_trouble = verbosity == Verbosity::troubles ? spdlog::level::warn : spdlog::level::info;
    switch (verbosity) {
        case Verbosity::quiet:
        case Verbosity::troubles: return impl_->screen->set_level(spdlog::level::warn);
        case Verbosity::usual: return impl_->screen->set_level(spdlog::level::info);
        case Verbosity::verbose: return impl_->screen->set_level(spdlog::level::debug);
    }
}

std::optional<std::string> LauncherLog::open_file(const std::string& path, const std::string& host) {
    auto opened = open_appended_file("--log-file", path);
    if (auto* wrong = std::get_if<std::string>(&opened)) return std::move(*wrong);
    auto sink = std::make_shared<FileSink>(
        std::make_shared<AppendedFile>(std::get<AppendedFile>(std::move(opened))), *impl_->screen);
    sink->set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%e %z {} %l [%t] %v", host));
    impl_->logger.sinks().push_back(std::move(sink));
    return std::nullopt;
}

void LauncherLog::speak_by(OutputPump* pump) {
    const OutputPump* before = std::exchange(impl_->screen->pump, pump);
    if (before == nullptr) return;
    impl_->screen->is_line_open = before->leaves_open_line();
    if (before->hangs()) impl_->logger.sinks().resize(1);
}

bool LauncherLog::can_update() const {
    return impl_->screen->should_log(spdlog::level::info) && ::isatty(STDERR_FILENO) == 1;
}

void LauncherLog::update(std::string_view text) {
    if (impl_->screen->pump == nullptr) return;
    impl_->screen->pump->pass(text.empty() ? std::string()
                                           : fmt::format("{}{}", kLauncherMark, harmless_line(text)));
}

void LauncherLog::error(std::string_view text) { impl_->say(spdlog::level::err, text); }
void LauncherLog::warn(std::string_view text) { impl_->say(spdlog::level::warn, text); }
void LauncherLog::info(std::string_view text) { impl_->say(spdlog::level::info, text); }
void LauncherLog::trouble(std::string_view text) { impl_->say(impl_->of_trouble, text); }
void LauncherLog::debug(std::string_view text) { impl_->say(spdlog::level::debug, text); }

}  // namespace launch
}  // namespace ddprun
