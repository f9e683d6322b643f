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
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/output_lines.hpp"
#include "launcher/process/session_launcher.hpp"
#include "launcher/start/piped_process.hpp"
#include "launcher/start/remote_shell.hpp"
#include "launcher/start/start_tree.hpp"
#include "rendezvous/base/alive.hpp"
#include "rendezvous/job/exit_status.hpp"

namespace ddprun {
inline namespace launch {

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

}  // namespace launch
}  // namespace ddprun
