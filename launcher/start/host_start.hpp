// HostStart: one branch of the tree that starts a job: brings a relay to its first host, by connections that are tried again
// within bounds, tells it what to do, and passes on what it says.
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
#include <vector>

#include "launcher/output/output_lines.hpp"
#include "launcher/process/session_launcher.hpp"
#include "launcher/start/bootstrap.hpp"
#include "launcher/start/piped_process.hpp"
#include "launcher/start/start_message.hpp"
#include "rendezvous/system/alive.hpp"

namespace ddprun::inline launch {

// What the starts of one process have in common.
struct StartTools {
    SessionLauncher launcher;
    Environment environment;  // of remote shells: this process's own
    std::string identity;
    std::string file;
    // The bytes of the program, read when the first host needs them.
    std::shared_ptr<const std::string> program_bytes();

  private:
    std::shared_ptr<const std::string> bytes_;
};

struct HostStartEvents {
    std::function<void(UpMessage)> on_message;
    // Nothing more comes. A host that failed has said so before.
    std::function<void()> on_over;
};

class HostStart {
  public:
    HostStart(const boost::asio::any_io_executor& executor, StartTools& tools, StartPlan plan,
              HostStartEvents events);
    HostStart(const HostStart&) = delete;
    HostStart& operator=(const HostStart&) = delete;

    void begin();
    // Reaches the relay behind the plan, also if it is not there yet.
    void send(const DownMessage& message);
    void hold(bool is_held);
    // Without waiting for anything; on_over comes all the same. A relay that is there has EOF then.
    void kill();
    bool is_connecting() const { return state_ == State::connecting; }
    bool is_over() const { return state_ == State::over; }
    const StartNode& node() const { return plan_.nodes.front(); }

  private:
    enum class State { idle, connecting, led, over };

    void connect();
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
    StartTools& tools_;
    StartPlan plan_;
    HostStartEvents events_;
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
    bool has_ended_ = false;  // the agent of its own node
    Alive alive_;
};

}  // namespace ddprun::inline launch
