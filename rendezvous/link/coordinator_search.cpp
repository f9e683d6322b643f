#include "rendezvous/link/coordinator_search.hpp"

#include <fmt/core.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <thread>

#include "rendezvous/base/error.hpp"
#include "rendezvous/codec/json_codec.hpp"
#include "rendezvous/control/control_wire.hpp"
#include "rendezvous/control/job_command.hpp"
#include "rendezvous/coordinator/roster.hpp"
#include "rendezvous/net/socket.hpp"
#include "rendezvous/secure/sealed_connection.hpp"

namespace ddprun {
inline namespace job {

Endpoint meeting_place_of(const Member& member) {
    return {member.address, static_cast<std::uint16_t>(member.port)};
}

std::vector<Endpoint> meeting_places_of(const MemberList& list) {
    std::vector<Endpoint> places;
    for (const Member& member : list.members) {
        if (member.port != 0) places.push_back(meeting_place_of(member));
    }
    return places;
}

void JobMemory::learn(const ControlMessage& message) {
    if (const auto* list = std::get_if<MemberList>(&message)) {
        members_ = *list;
        // A round begins, or has begun, and whether with this agent, RoundReady says. Without it, it has no
        // voice any more.
        if (following_ && list->version() > following_->last.version()) following_.reset();
    } else if (const auto* ready = std::get_if<RoundReady>(&message)) {
        following_.reset();
        leader_.reset();
        if (!members_ || members_->round != ready->round) return;
        following_ = Following{.last = *members_,
                               .group_rank = ready->group_rank,
                               .base_rank = ready->base_rank,
                               .place = ready->place,
                               .claim = {},
                               .followed = members_->epoch,
                               .has_workers = false,
                               .is_decided = false,
                               .restart_count = ready->restart_count,
                               .resizes = ready->resizes,
                               .cause = {},
                               .dead = {}};
        if (node_rank_ != kUnnumbered) following_->claim = node_rank_;
    }
    if (!following_) return;
    if (const auto* stop = std::get_if<Stop>(&message)) {
        if (stop->cause.kind == Failure::Kind::resized) return;
        Failure& cause = following_->cause.emplace(stop->cause);
        // It is said once more, beside much else.
        cause.traceback.clear();
        cause.last_lines.clear();
        for (std::string* text :
             {&cause.message, &cause.error_message, &cause.hint, &cause.accusation, &cause.testimony})
            *text = cut_text(*text, kMaxCauseCarried);
    } else if (const auto* restarting = std::get_if<Restarting>(&message)) {
        following_->is_decided = true;
        following_->restart_count = restarting->restart;
        if (restarting->resize > 0) following_->resizes = restarting->resize;
    } else if (const auto* gone = std::get_if<MemberGone>(&message)) {
        if (following_->last.version() == std::pair(gone->epoch, gone->round)) note_gone(gone->group_rank);
    } else if (const auto* stepped_down = std::get_if<SteppedDown>(&message)) {
        if (following_->last.version() != std::pair(stepped_down->epoch, stepped_down->round)) return;
        for (const int rank : stepped_down->gone) note_gone(rank);
    }
}

void JobMemory::learn_leader(const Following& own, int group_rank) {
    if (!following_) return;
    following_->dead = own.dead;
    following_->followed = own.followed;
    leader_ = group_rank;
}

void JobMemory::note_gone(int group_rank) {
    std::vector<int>& dead = following_->dead;
    const bool is_known = std::find(dead.begin(), dead.end(), group_rank) != dead.end();
    if (!is_known && dead.size() < kMaxMembersListed) dead.push_back(group_rank);
}

std::optional<Following> JobMemory::following() const { return following_; }

namespace asio = boost::asio;

void LeaderSearch::begin(Following own, int leader, const CoordinatorLoss& loss) {
    called_ = leader;
    follows_ = true;
    unclear_.reset();
    life_ = std::make_shared<int>(0);  // Nothing of a search before comes to this one.
    succession_.emplace(std::move(own), Succession::TimePoint::clock::now());
    if (loss.kind == CoordinatorLoss::Kind::left) succession_->note_gone(leader);
    last_cause_ = "no other node leads the job";
}

void LeaderSearch::lose(const CoordinatorLoss& loss, const Endpoint& place) {
    const int leader = follows_ && called_ ? *called_ : kNobody;
    if (loss.kind == CoordinatorLoss::Kind::left) last_cause_ = loss.cause;
    if (loss.is_dead && leader != kNobody) succession_->note_gone(leader);
    const bool is_unclear = loss.kind == CoordinatorLoss::Kind::broken && !loss.is_dead && leader != kNobody;
    if (!is_unclear) return go_on();
    unclear_.emplace(leader, place);
    look();
}

void LeaderSearch::pass_over(const CoordinatorLoss& loss) {
    if (loss.kind == CoordinatorLoss::Kind::left) last_cause_ = loss.cause;
    go_on();
}

// A process that dies with something unread has its connection reset. That could come from elsewhere, too;
// but if its machine answers that nobody listens where the coordinator did, it is dead.
void LeaderSearch::look() {
    asio::co_spawn(
        executor_,
        [this, place = unclear_->second, life = std::weak_ptr(life_)]() -> asio::awaitable<void> {
            const bool is_dead = co_await is_refused(place, kCallTimeout);
            if (life.expired() || !succession_) co_return;
            if (is_dead) succession_->note_gone(std::exchange(unclear_, {})->first);
            go_on();
        },
        asio::detached);
}

// Those who followed a coordinator of this agent's are told first that it has come to nothing; else they
// would take it for dead.
void LeaderSearch::go_on() {
    follows_ = false;
    called_.reset();
    asio::post(executor_, [this, life = std::weak_ptr(life_)] {
        if (life.expired() || !succession_) return;
        if (steps_.hang_up()) return step_after(CoordinatorClient::kCloseTimeout);
        step();
    });
}

void LeaderSearch::step_after(std::chrono::milliseconds pause) {
    wait(pause, [this] { step(); });
}

template <typename Then>
void LeaderSearch::wait(std::chrono::milliseconds pause, Then then) {
    pause_.expires_after(pause);
    pause_.async_wait([then](boost::system::error_code cancelled) {
        if (!cancelled) then();
    });
}

void LeaderSearch::step() {
    if (!succession_) return;
    pause_.cancel();
    steps_.clear();
    if (steps_.claim) {
        // Whoever hosts as etcd says may be gone, or come.
        if (std::exchange(was_called_, false)) return step_after(Succession::kPause);
        return steps_.claim(succession_->own(), succession_->deadline());
    }
    const Succession::Step next = succession_->next(Succession::TimePoint::clock::now());
    if (next.kind == Succession::Kind::end) return fail(last_cause_);
    // A process may take its time to die, or its machine to answer.
    if (next.kind == Succession::Kind::pause)
        return wait(Succession::kPause, [this] { unclear_ ? look() : step(); });
    take(next);
}

void LeaderSearch::take(const Succession::Step& next) {
    called_ = next.member.group_rank;
    was_called_ = true;
    steps_.go_to(next);
}

void LeaderSearch::lead() {
    const std::vector<Member>& members = succession_->own().last.members;
    const auto self = std::find_if(members.begin(), members.end(), [this](const Member& one) {
        return one.group_rank == succession_->own().group_rank;
    });
    if (self == members.end() || self->port == 0) return fail("this node can host no coordinator");
    take({Succession::Kind::host, *self});
}

void LeaderSearch::go_to(const Endpoint& host) {
    const std::vector<Member>& members = succession_->own().last.members;
    const auto one = std::find_if(members.begin(), members.end(), [&host](const Member& member) {
        return member.address == host.host && member.port == host.port;
    });
    Member called{.group_rank = kNobody, .host = host.host, .address = host.host, .port = host.port};
    if (one != members.end()) called = *one;
    take({Succession::Kind::call, called});
}

void LeaderSearch::fail(const std::string& why) {
    succession_.reset();
    steps_.give_up({CoordinatorLoss::Kind::leaderless, why});
}

namespace asio = boost::asio;

class RedirectNotice::Impl {
  public:
    Impl(const asio::any_io_executor& executor, std::vector<Endpoint> old_places, const JobMoved& word,
         const std::optional<SecretKey>& key)
        : period_(executor), old_places_(std::move(old_places)), word_(encode_control(word)), key_(key) {}

    static void begin(const std::shared_ptr<Impl>& self) {
        asio::co_spawn(
            self->period_.get_executor(), [self] { return self->call_again_and_again(); }, asio::detached);
    }

    void end() {
        ended_ = true;
        period_.cancel();
    }

  private:
    asio::awaitable<void> call_again_and_again() {
        while (!ended_) {
            for (std::size_t i = 0; i < old_places_.size() && !ended_; ++i) co_await call(old_places_[i]);
            if (ended_) break;
            period_.expires_after(kPeriod);
            boost::system::error_code cancelled;
            co_await period_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
        }
    }

    asio::awaitable<void> call(const Endpoint& old_place) {
        try {
            auto socket = co_await async_connect_tcp(old_place, kCallTimeout);
            limit_silence(socket, kCallTimeout);
            const std::string bytes = co_await words_for(socket);
            co_await asio::async_write(socket, asio::buffer(bytes), asio::use_awaitable);
            co_await await_end(socket);
        } catch (const boost::system::system_error&) {
            // Nobody is there, as is usual.
        }
    }

    // The other side may ask whose this connection is, as long as there is one.
    static asio::awaitable<void> await_end(asio::ip::tcp::socket& socket) {
        using namespace asio::experimental::awaitable_operators;
        socket.shutdown(asio::ip::tcp::socket::shutdown_send);
        asio::steady_timer deadline(socket.get_executor(), kCallTimeout);
        char byte = 0;
        boost::system::error_code ended;
        co_await (socket.async_read_some(asio::buffer(&byte, 1),
                                         asio::redirect_error(asio::use_awaitable, ended)) ||
                  deadline.async_wait(asio::use_awaitable));
    }

    asio::awaitable<std::string> words_for(asio::ip::tcp::socket& socket) {
        if (!key_) co_return std::string(kControlMagic) + word_;
        const auto call = co_await call_sealed(socket, SealedPurpose::agent, *key_);
        // The listener there is none of the job's.
        if (!call.keys) co_return std::string();
        co_return SealedRecords(*call.keys).seal(word_);
    }

    asio::steady_timer period_;
    std::vector<Endpoint> old_places_;
    std::string word_;
    std::optional<SecretKey> key_;
    bool ended_ = false;
};

RedirectNotice::RedirectNotice(const asio::any_io_executor& executor, std::vector<Endpoint> old_places,
                               const JobMoved& word, const std::optional<SecretKey>& key)
    : impl_(std::make_shared<Impl>(executor, std::move(old_places), word, key)) {
    Impl::begin(impl_);
}

RedirectNotice::~RedirectNotice() { impl_->end(); }

std::vector<std::uint16_t> PortWalk::ports() const {
    std::vector<std::uint16_t> ports;
    for (std::size_t i = 0; i < met_.size(); ++i) ports.push_back(static_cast<std::uint16_t>(first_ + i));
    return ports;
}

void PortWalk::pass_nobody(const std::string& cause) {
    met_[next_].clear();
    cause_ = cause;
    pass();
}

void PortWalk::pass_stranger(const std::string& what) {
    met_[next_] = what;
    pass();
}

void PortWalk::pass() {
    next_ = (next_ + 1) % met_.size();
    if (next_ == 0) pause_ = pause_.count() == 0 ? kFirstPause : std::min(2 * pause_, kLongestPause);
}

std::chrono::milliseconds PortWalk::pause() const {
    return has_ended_round() ? pause_ : std::chrono::milliseconds(0);
}

std::string PortWalk::text() const {
    std::string text;
    std::size_t strangers = 0;
    for (std::size_t i = 0; i < met_.size(); ++i) {
        if (met_[i].empty()) continue;
        text += fmt::format("{}port {} {}", strangers++ == 0 ? "" : "; ", first_ + i, met_[i]);
    }
    if (strangers == met_.size()) return text;
    if (strangers > 0)
        return fmt::format("{}; nobody else from {} to {}", text, first_, first_ + met_.size() - 1);
    return fmt::format("{}; nor is the job at any other port from {} to {}", cause_, first_,
                       first_ + met_.size() - 1);
}

namespace {

// Whoever has one of another user's names for a claim has only that.
constexpr int kMostNames = 16;
constexpr int kListenAttempts = 10;
constexpr std::chrono::milliseconds kListenPause{10};

// A name that begins with a zero byte is in no file system. An id may be longer than such a name.
std::pair<sockaddr_un, socklen_t> claim_address(const std::string& run_id, int number) {
    Digest id;
    id.add(run_id);
    const std::string name = fmt::format("ddprun-host-{}-{:016x}-{}", ::geteuid(), id.value(), number);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

OwnedDescriptor claim_socket() {
    OwnedDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) fail_errno(errno, "cannot claim to host the rendezvous");
    return socket;
}

// One of ours listens as soon as it has the name.
std::optional<uid_t> user_who_listens(const sockaddr* name, socklen_t size) {
    for (int attempt = 0; attempt < kListenAttempts; ++attempt) {
        // No event says when a socket begins to listen.
        if (attempt > 0) std::this_thread::sleep_for(kListenPause);
        const OwnedDescriptor caller = claim_socket();
        ucred listener{};
        socklen_t listener_size = sizeof listener;
        if (::connect(caller.get(), name, size) == 0 &&
            ::getsockopt(caller.get(), SOL_SOCKET, SO_PEERCRED, &listener, &listener_size) == 0)
            return listener.uid;
    }
    return std::nullopt;
}

}  // namespace

bool HostClaim::take(const std::string& run_id) {
    std::string squatters;
    for (int number = 0; number < kMostNames; ++number) {
        const auto [address, size] = claim_address(run_id, number);
        const auto* name = reinterpret_cast<const sockaddr*>(&address);
        OwnedDescriptor holder = claim_socket();
        if (::bind(holder.get(), name, size) == 0 && ::listen(holder.get(), SOMAXCONN) == 0) {
            holder_ = std::move(holder);
            return true;
        }
        if (errno != EADDRINUSE) fail_errno(errno, "cannot claim to host the rendezvous");
        const auto user = user_who_listens(name, size);
        if (user == ::geteuid()) return false;
        squatters += user ? fmt::format(" uid {}", *user) : " somebody who does not listen";
    }
    fail(Errc::refused,
         "cannot claim to host the rendezvous, since other users have all names of the claim:" + squatters);
}

PortSearch::PortSearch(const boost::asio::any_io_executor& executor, PortSearchOptions options,
                       PortSearchEvents events)
    : pause_(executor),
      options_(std::move(options)),
      walk_(options_.first.port, options_.ports),
      events_(std::move(events)) {
    options_.hello.seeks_port = true;
}

std::vector<Endpoint> PortSearch::places() const {
    std::vector<Endpoint> places;
    for (const std::uint16_t port : walk_.ports()) places.push_back(at(port));
    return places;
}

void PortSearch::host(const std::function<void(const Endpoint&)>& host,
                      const std::function<void(const std::string&)>& on_step) {
    if (!options_.has_claim_to_host && !claim_.take(options_.hello.run_id)) return;
    for (const Endpoint& here : places()) {
        try {
            return host(here);
        } catch (const boost::system::system_error& error) {
            if (error.code() != Errc::address_in_use) throw;
            if (here == places().back()) fail_all_taken(error.what());
            on_step(error.what());
        }
    }
}

void PortSearch::fail_all_taken(const std::string& last) const {
    const auto ports = walk_.ports();
    const std::string source =
        options_.range ? fmt::format(", those of --port-range {} for this job", to_string(*options_.range))
                       : "";
    fail(Errc::address_in_use,
         fmt::format("none of the ports {} to {} is free{}: {}", ports.front(), ports.back(), source, last));
}

// The call goes by way of the timer in any case, not from inside the callback of the client that is about to
// be replaced.
void PortSearch::call_next() {
    pause_.expires_after(walk_.pause());
    pause_.async_wait([this](boost::system::error_code cancelled) {
        if (cancelled || has_ended_) return;
        const auto now = CoordinatorClient::TimePoint::clock::now();
        if (now >= options_.deadline)
            return events_.observer.lost({CoordinatorLoss::Kind::unreached, walk_.text()});
        is_heard_ = is_passed_ = false;
        events_.call({.coordinator = place(),
                      .hello = options_.hello,
                      .join_deadline = std::min(options_.deadline, now + kCallTimeout),
                      .answer_timeout = Roster::kFirstStatusDelay + kAnswerTime});
    });
}

bool PortSearch::takes_trouble(const std::string& cause) {
    if (is_heard_) return false;
    if (is_passed_) return true;
    walk_.pass_nobody(cause);
    pass();
    return true;
}

bool PortSearch::takes(const CoordinatorLoss& loss) {
    if (loss.kind == CoordinatorLoss::Kind::unreached) return takes_trouble(loss.cause);
    if (is_heard_) return false;
    if (is_passed_) return true;
    walk_.pass_stranger("is another program's: " + loss.cause);
    pass();
    return true;
}

bool PortSearch::takes(const ControlMessage& message) {
    const auto* refused = std::get_if<Refused>(&message);
    is_heard_ = refused == nullptr || refused->other_job.empty();
    if (is_heard_) return false;
    walk_.pass_stranger(refused->other_job);
    pass();
    return true;
}

// The client would try again by itself, and might be let in where it is to call no more.
void PortSearch::pass() {
    is_passed_ = true;
    boost::asio::post(pause_.get_executor(), [this, life = std::weak_ptr(life_)] {
        if (!life.expired() && is_passed_) events_.drop();
    });
    if (walk_.has_ended_round()) events_.observer.trouble(walk_.text());
    call_next();
}

void PortSearch::end() {
    has_ended_ = true;
    pause_.cancel();
}

}  // namespace job
}  // namespace ddprun
