#include "launcher/console.hpp"

#define SPDLOG_HEADER_ONLY
#define FMT_HEADER_ONLY
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace ddprun {

class Console::Impl {
  public:
    Impl() : logger_("ddprun", std::make_shared<spdlog::sinks::stderr_sink_st>()) {
        logger_.set_formatter(std::make_unique<spdlog::pattern_formatter>("ddprun: %v"));
        logger_.flush_on(spdlog::level::info);
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
