// HostConnection is one branch of the tree that starts a job. The class connects to the branch's first host,
// with a bounded number of attempts, and brings a relay there. Then HostConnection tells the relay what to
// do, and passes on what the relay says.
//
//   connecting ── have ──► led ── the remote shell ends ──► over
//     │   ▲ └─── need: the program's bytes ───┘
//     └───┘ a connection that may come about the next time, after a pause
//
// Owned and used on the thread of the executor, from where its events come; not destroyed in them.
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
#include <vector>

#include "launcher/output/output_lines.hpp"
#include "launcher/process/session_launcher.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
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

// PipedProcess is a child of this process with pipes for its standard streams: a remote shell, or the agent
// beside a relay.
//
// Owned and used on the thread of the executor, from where its events come; the owner may be destroyed in
// them. The destructor kills a child that still runs, unless it was let go.
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

// ConnectionTools are what the connections of one process have in common.
struct ConnectionTools {
    SessionLauncher launcher;
    Environment environment;  // of remote shells: this process's own
    std::string identity;
    std::string file;
    // Returns the bytes of the program, read when the first host needs them.
    std::shared_ptr<const std::string> program_bytes();

  private:
    std::shared_ptr<const std::string> bytes_;
};

struct HostEvents {
    std::function<void(UpMessage)> on_message;
    // on_over: nothing more comes. The failure of a host was reported before.
    std::function<void()> on_over;
};

class HostConnection {
  public:
    HostConnection(const boost::asio::any_io_executor& executor, ConnectionTools& tools, StartPlan plan,
                   HostEvents events);
    HostConnection(const HostConnection&) = delete;
    HostConnection& operator=(const HostConnection&) = delete;

    // Tries a connection.
    void begin();
    // Sends to the relay behind the plan, also if the relay is not there yet.
    void send(const DownMessage& message);
    void hold(bool is_held);
    // Ends the connection without waiting for anything; on_over comes all the same. A relay that is there
    // gets EOF.
    void kill();
    bool is_connecting() const { return state_ == State::connecting; }
    bool is_over() const { return state_ == State::over; }
    const StartNode& node() const { return plan_.nodes.front(); }

  private:
    enum class State { idle, connecting, led, over };

    WorkerSpec spec_of_shell();
    void heard(std::string_view bytes);
    void shake_hands(std::string_view bytes);
    void ship();
    void lead();
    void take_frames(std::string_view bytes);
    void complained(std::string_view bytes);
    void ended(const ExitStatus& status);
    void fail(std::string text);
    void be_over();
    std::string last_complaint() const;

    boost::asio::any_io_executor executor_;
    ConnectionTools& tools_;
    StartPlan plan_;
    HostEvents events_;
    boost::asio::steady_timer timer_;
    std::unique_ptr<PipedProcess> shell_;
    State state_ = State::idle;
    Handshake handshake_;
    FrameReader frames_{kMaxFrameUp};
    LineSplitter complaints_;
    LastLines last_complaints_;
    std::vector<std::string> waiting_;  // frames for a relay that is not there yet
    std::string trouble_;               // why the shell was ended by us; empty: it was not
    int connects_ = 0;
    bool is_unwanted_ = false;
    bool has_ended_ = false;  // the agent of this node
    Alive alive_;
};

// HostConnections are the branches that one process starts, used as one; the rules are those of
// HostConnection.
class HostConnections {
  public:
    HostConnections(const boost::asio::any_io_executor& executor, HostEvents events);

    // Begins all branches at once.
    void begin(const StartPlan& whole, std::vector<std::vector<StartNode>> branches);

    void send(const DownMessage& message);
    // Tells the relay of this node alone, if the node is the first of a branch.
    void send_to(int rank, const DownMessage& message);
    void hold(bool is_held);
    void kill();
    bool are_over() const;
    // Returns true if no connection is being tried any more.
    bool are_settled() const;
    // Returns the targets of the branches that are not over.
    std::vector<std::string> left() const;

  private:
    boost::asio::any_io_executor executor_;
    HostEvents events_;
    ConnectionTools tools_;
    std::vector<std::unique_ptr<HostConnection>> starts_;
    bool is_held_ = false;
};

}  // namespace launch
}  // namespace ddprun
