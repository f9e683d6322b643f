#include "collectives/liveness/lifeline.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rendezvous/system/check.hpp"
#include "rendezvous/system/error.hpp"
#include "rendezvous/system/quiet_thread.hpp"
#include "rendezvous/system/short_turns.hpp"

namespace ddprun {
namespace {

int milliseconds_until(std::optional<Gate::Clock::time_point> limit) {
    if (!limit) return -1;
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(*limit - Gate::Clock::now());
    return static_cast<int>(std::max<std::int64_t>(rest.count(), 0));
}

}  // namespace

Lifeline::Lifeline(const Membership& membership, TcpListener listener, const Descent& descent)
    : membership_(membership),
      word_(descent.word),
      lanes_(membership.lanes()),
      kin_(descent.elder != nullptr ? descent.elder->kin_ : std::make_shared<Kin>()),
      ranks_in_elder_(descent.ranks),
      elder_(descent.elder),
      mutex_(kin_->mutex),
      gate_(std::move(listener), [this](const LinkHello& hello) { return judge(hello); }),
      state_(membership.rank, membership.world_size(), membership.own_numbers),
      data_came_(membership.members.size() * static_cast<std::size_t>(lanes_)) {
    for (int rank = 0; rank < membership.world_size(); ++rank) {
        const auto place = static_cast<std::size_t>(rank);
        processes_.push_back(elder_ != nullptr ? elder_->processes_[ranks_in_elder_[place]] : rank);
    }
    thread_ = start_without_signals([this] { run(); });
    if (word_ != nullptr) word_->add(*this);
    const std::lock_guard lock(mutex_);
    kin_->lifelines.push_back(this);
    for (const int process : kin_->dead) mourn(process);
}

Lifeline::~Lifeline() {
    if (word_ != nullptr) word_->remove(*this);
    {
        const std::lock_guard lock(mutex_);
        std::erase(kin_->lifelines, this);
        stopping_ = true;
    }
    wake_thread_.signal();
    thread_.join();
}

void Lifeline::add_neighbour(TcpLink link) {
    const std::lock_guard lock(mutex_);
    greet(std::move(link));
    wake_thread_.signal();
}

bool Lifeline::has_left_neighbour() const {
    const std::lock_guard lock(mutex_);
    return left_neighbour_came_;
}

void Lifeline::settle() {
    const std::lock_guard lock(mutex_);
    elder_ = nullptr;
    settled_ = true;
    tell_kin();
}

std::optional<Verdict> Lifeline::verdict_of_elder() const {
    const auto verdict = elder_ != nullptr ? elder_->verdict() : std::nullopt;
    if (!verdict) return std::nullopt;
    return passed_on(*verdict, ranks_in_elder_);
}

std::optional<TcpLink> Lifeline::take_data(int peer, int lane) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(arrived_data_.begin(), arrived_data_.end(), [&](const Arrived& arrived) {
        return arrived.link.peer() == peer && arrived.lane == lane;
    });
    if (found == arrived_data_.end()) return std::nullopt;
    TcpLink link = std::move(found->link);
    arrived_data_.erase(found);
    return link;
}

void Lifeline::on_news(std::function<void()> hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
    if (hook_ && !state_.is_quiet()) hook_();
}

void Lifeline::set_witness(Witness* witness) {
    const std::lock_guard lock(mutex_);
    witness_ = witness;
    tell_witness();
}

void Lifeline::withdraw_word() {
    if (word_ != nullptr) word_->withdraw();
}

void Lifeline::tell_news() const {
    news_.signal();
    if (hook_) hook_();
}

void Lifeline::take_news() { news_.clear(); }

void Lifeline::enter(const Call& call) {
    const std::lock_guard lock(mutex_);
    state_.enter(call);
    answer_if_owed();
}

bool Lifeline::enter_if_quiet(const Call& call) {
    const std::lock_guard lock(mutex_);
    if (!state_.is_quiet()) return false;
    state_.enter(call);
    answer_if_owed();
    return true;
}

void Lifeline::answer_if_owed() {
    if (!state_.owes_answer()) return;
    carry_out(state_.answer());
    // That may have decided it.
    if (state_.verdict()) tell_news();
}

std::optional<Verdict> Lifeline::verdict() const {
    const std::lock_guard lock(mutex_);
    return state_.verdict();
}

std::optional<std::uint64_t> Lifeline::left_after(int rank) const {
    const std::lock_guard lock(mutex_);
    return state_.left_after(rank);
}

int Lifeline::left_before(std::uint64_t sequence) const {
    const std::lock_guard lock(mutex_);
    return state_.left_before(sequence);
}

void Lifeline::inquire() {
    const std::lock_guard lock(mutex_);
    carry_out(state_.inquire());
}

void Lifeline::ask(std::uint32_t round) {
    const std::lock_guard lock(mutex_);
    carry_out(state_.ask(round));
    // It may have found out already.
    if (state_.verdict()) tell_news();
}

void Lifeline::suspect(std::uint64_t sequence) {
    const std::lock_guard lock(mutex_);
    carry_out(state_.suspect(sequence));
}

Verdict Lifeline::conclude(std::uint64_t sequence, const Verdict& otherwise) {
    const std::lock_guard lock(mutex_);
    carry_out(state_.conclude(sequence, otherwise));
    tell_news();
    return *state_.verdict();
}

bool Lifeline::hears_others() const {
    const std::lock_guard lock(mutex_);
    return !neighbours_.empty();
}

std::vector<std::optional<Call>> Lifeline::progress() const {
    const std::lock_guard lock(mutex_);
    return state_.progress();
}

bool Lifeline::all_answered() const {
    const std::lock_guard lock(mutex_);
    return state_.all_answered();
}

Verdict Lifeline::declare(const Verdict& verdict) {
    const std::lock_guard lock(mutex_);
    carry_out(state_.declare(verdict));
    tell_news();
    return *state_.verdict();
}

void Lifeline::leave() {
    const std::lock_guard lock(mutex_);
    carry_out(state_.leave());
}

void Lifeline::life_lost(std::uint64_t life) {
    {
        const std::lock_guard lock(mutex_);
        lost_lives_.push_back(life);
    }
    wake_thread_.signal();
}

bool Lifeline::has_life(int rank, std::uint64_t life) const {
    return rank != membership_.rank && life != 0 && membership_.member(rank).life == life;
}

void Lifeline::run() {
    ask_for_short_turns();
    while (true) {
        std::vector<pollfd> polled = descriptors();
        const int ready = ::poll(polled.data(), polled.size(), milliseconds_until(gate_.next_limit()));
        check(ready >= 0 || errno == EINTR, "the lifeline can poll its own descriptors");
        wake_thread_.clear();
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) return;
        }
        serve_gate();
        serve_neighbours();
        serve_lost_lives();
    }
}

std::vector<pollfd> Lifeline::descriptors() const {
    std::vector<pollfd> polled{{wake_thread_.descriptor(), POLLIN, 0}};
    gate_.add_descriptors(polled);
    const std::lock_guard lock(mutex_);
    for (const Neighbour& neighbour : neighbours_) polled.push_back({neighbour.link.descriptor(), POLLIN, 0});
    return polled;
}

void Lifeline::serve_gate() {
    for (Gate::Visitor& visitor : gate_.turn(Gate::Clock::now())) admit(std::move(visitor));
}

HelloAnswer Lifeline::judge(const LinkHello& hello) {
    const std::lock_guard lock(mutex_);
    if (hello.generation != membership_.generation) return HelloAnswer::other_generation;
    if (hello.communicator != membership_.communicator) return HelloAnswer::other_communicator;
    if (hello.nonce != membership_.nonce) return HelloAnswer::other_job;
    const bool known =
        hello.from >= 0 && hello.from < membership_.world_size() && hello.from != membership_.rank;
    if (hello.to != membership_.rank || !known) return HelloAnswer::other_rank;
    if (hello.channel == Channel::lifeline) {
        if (hello.from != membership_.left()) return HelloAnswer::other_rank;
        return left_neighbour_came_ ? HelloAnswer::repeated : HelloAnswer::welcome;
    }
    if (hello.lane >= lanes_) return HelloAnswer::other_lane;
    return data_came_[data_index(hello)] ? HelloAnswer::repeated : HelloAnswer::welcome;
}

std::size_t Lifeline::data_index(const LinkHello& hello) const {
    return static_cast<std::size_t>(hello.from) * static_cast<std::size_t>(lanes_) + hello.lane;
}

void Lifeline::admit(Gate::Visitor visitor) {
    const std::lock_guard lock(mutex_);
    // Two of a kind can be judged in one turn of the gate; the second is dropped here.
    if (visitor.hello.channel == Channel::lifeline) {
        if (std::exchange(left_neighbour_came_, true)) return;
        greet(std::move(visitor.link));
    } else {
        const std::size_t index = data_index(visitor.hello);
        if (data_came_[index]) return;
        data_came_[index] = true;
        arrived_data_.push_back({std::move(visitor.link), visitor.hello.lane});
    }
    tell_news();
}

void Lifeline::greet(TcpLink link) {
    neighbours_.push_back({std::move(link), {}});
    for (const Notice& notice : state_.for_new_neighbour()) send(neighbours_.back(), notice);
}

void Lifeline::serve_neighbours() {
    const std::lock_guard lock(mutex_);
    std::vector<int> lost;
    std::erase_if(neighbours_, [&](Neighbour& neighbour) {
        if (read_from(neighbour)) return false;
        lost.push_back(neighbour.link.peer());
        return true;
    });
    for (const int peer : lost) judge_loss(peer, kConnectionsClosed);
    if (!lost.empty()) tell_news();
}

void Lifeline::serve_lost_lives() {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t life : std::exchange(lost_lives_, {})) {
        for (int rank = 0; rank < membership_.world_size(); ++rank) {
            if (!has_life(rank, life)) continue;
            judge_loss(rank, kProcessEnded);
            tell_news();
        }
    }
}

void Lifeline::judge_loss(int rank, std::string_view how) {
    const bool unexpected = !state_.left_after(rank);
    const auto cause = witness_ != nullptr && unexpected ? witness_->cause_of_loss(rank) : std::nullopt;
    carry_out(cause ? state_.declare(*cause) : state_.lost(rank, how));
}

bool Lifeline::read_from(Neighbour& neighbour) {
    std::array<std::byte, 4096> buffer;
    try {
        iovec part{buffer.data(), buffer.size()};
        while (const std::size_t count = neighbour.link.read_some({&part, 1})) {
            neighbour.reader.add(std::span(buffer).first(count));
            while (const auto notice = neighbour.reader.next()) {
                carry_out(state_.heard(*notice, neighbour.link.peer()));
                tell_news();
            }
            if (neighbour.reader.broken()) return false;
        }
    } catch (const LinkLost&) {
        return false;
    }
    return true;
}

void Lifeline::tell_witness() {
    if (witness_ == nullptr || witness_knows_ || !state_.verdict()) return;
    witness_knows_ = true;
    witness_->ended(*state_.verdict());
}

void Lifeline::carry_out(const LifelineState::Sendings& sendings) {
    if (state_.verdict()) withdraw_word();
    tell_witness();
    for (const auto& sending : sendings) {
        for (Neighbour& neighbour : neighbours_) {
            if (neighbour.link.peer() != sending.except) send(neighbour, sending.notice);
        }
    }
    tell_kin();
}

void Lifeline::tell_kin() {
    const auto& verdict = state_.verdict();
    if (!verdict || !settled_ || std::exchange(kin_know_, true)) return;
    if (verdict->code != CollectiveErrorCode::peer_died) return;
    for (const int culprit : verdict->culprits) {
        const auto rank = static_cast<std::size_t>(culprit);
        if (rank >= processes_.size()) continue;
        kin_->dead.push_back(processes_[rank]);
        for (Lifeline* other : kin_->lifelines) {
            if (other != this) other->mourn(processes_[rank]);
        }
    }
}

void Lifeline::mourn(int process) {
    const auto found = std::find(processes_.begin(), processes_.end(), process);
    if (found == processes_.end() || state_.verdict()) return;
    const int rank = static_cast<int>(found - processes_.begin());
    carry_out(
        state_.declare({CollectiveErrorCode::peer_died,
                        {rank},
                        accuse(rank, Charge::died) + ": a communicator that has it, too, ended by that"}));
    tell_news();
}

void Lifeline::send(Neighbour& neighbour, const Notice& notice) {
    std::string bytes = encode(notice);
    try {
        iovec part{bytes.data(), bytes.size()};
        // Notices are few and short, and the other end always reads; one that does not fit would tear the
        // stream.
        if (neighbour.link.write_some({&part, 1}) != bytes.size()) neighbour.link.shut_down();
    } catch (const LinkLost&) {
        // The thread finds the same when it reads from this neighbour next.
    }
}

}  // namespace ddprun
