// PipedProcess is a child of this process with pipes for its standard streams: a remote shell, or the agent
// beside a relay.
//
// Owned and used on the thread of the executor, from where its events come; the owner may be destroyed in
// them. The destructor kills a child that still runs, unless it was let go.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/process/session_launcher.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {

struct PipedEvents {
    std::function<void(std::string_view)> on_output;
    std::function<void(std::string_view)> on_error_output;
    std::function<void(std::string_view)> on_word;  // of a child that has a socket for its standard input
    // on_end comes last of all: the child has ended and all that it said has been told.
    std::function<void(const ExitStatus&)> on_end;
};

class PipedProcess {
  public:
    // kPipeDrainTime: how long the streams of an ended child may stay open in another process's hands.
    static constexpr std::chrono::milliseconds kPipeDrainTime{500};

    PipedProcess(const boost::asio::any_io_executor& executor, PipedEvents events);
    ~PipedProcess();
    PipedProcess(const PipedProcess&) = delete;
    PipedProcess& operator=(const PipedProcess&) = delete;

    // Starts the child with streams that are set here, not the spec's. With `converses`, its standard input
    // is a socket, by which it says words. Returns why there is no child.
    std::optional<std::string> start(SessionLauncher& launcher, WorkerSpec spec, bool converses);

    // Writes into the child's standard input, behind what waits there. Nothing is lost but what a child that
    // ended has not read.
    void write(std::shared_ptr<const std::string> bytes);
    void write(std::string bytes) { write(std::make_shared<const std::string>(std::move(bytes))); }

    // Stops reading the child's output while `is_held`, so that the child has to wait.
    void hold(bool is_held);

    void signal(int signal) const;
    bool is_running() const { return process_ != nullptr; }

    // Lets the child outlive this process.
    void let_go();

  private:
    using Stream = boost::asio::posix::stream_descriptor;

    // Source is one of the streams that are read.
    struct Source {
        Stream& stream;
        std::function<void(std::string_view)> PipedEvents::*event;
        bool may_be_held;
        bool is_awaited = false;
    };

    void read(Source& source);
    void read_some(Source& source);
    void write_next();
    void watch();
    void await_drained();
    void look_for_end();
    void end();

    Stream input_;
    Stream output_;
    Stream error_output_;
    Source said_{output_, &PipedEvents::on_output, true};
    Source complained_{error_output_, &PipedEvents::on_error_output, true};
    Source answered_{input_, &PipedEvents::on_word, false};
    boost::asio::steady_timer drain_timer_;
    PipedEvents events_;
    std::unique_ptr<SessionLauncher::Process> process_;
    std::optional<ExitStatus> status_;
    std::deque<std::shared_ptr<const std::string>> outgoing_;
    std::size_t written_ = 0;  // bytes of the first of `outgoing_`
    bool is_writing_ = false;
    bool is_held_ = false;
    Alive alive_;
};

}  // namespace launch
}  // namespace ddprun
