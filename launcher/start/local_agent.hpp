// LocalAgent: the agent beside a relay, as that sees it. Used on the thread of the executor, from where its events come.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <optional>
#include <string>

#include "launcher/output/output_lines.hpp"
#include "launcher/start/piped_process.hpp"
#include "launcher/start/start_message.hpp"

namespace ddprun::inline launch {

class LocalAgent {
  public:
    LocalAgent(const boost::asio::any_io_executor& executor, std::function<void(UpMessage)> on_message);

    // Its end is a message, too, and so is a start that failed. `port` 0: it takes a free one and says which.
    void start(const StartPlan& plan, const Environment& own, int port);

    void signal(int signal) const { process_.signal(signal); }
    void hold(bool is_held) { process_.hold(is_held); }
    bool was_started() const { return rank_.has_value(); }
    bool has_ended() const { return ended_; }
    // It outlives this process.
    void let_go() { process_.let_go(); }

  private:
    void said(LineSplitter& lines, bool is_error, std::string_view bytes);
    void answered(std::string_view bytes);
    void ended(const ExitStatus& status);

    std::function<void(UpMessage)> on_message_;
    SessionLauncher launcher_;
    LineSplitter output_;
    LineSplitter error_output_;
    std::string words_;
    std::optional<int> rank_;
    bool ended_ = false;
    PipedProcess process_;
};

}  // namespace ddprun::inline launch
