#include "rendezvous/coordinator/first_failure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <sstream>
#include <string>
#include <utility>

#include "rendezvous/job/failure_reason.hpp"
#include "rendezvous/job/raised_words.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace job {
namespace {

std::optional<Accusation> accusation_in_file(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (auto found = find_accusation(line)) return found;
    }
    return std::nullopt;
}

void place_at(Failure& failure, const RankEnd& end) {
    failure.rank = end.rank;
    failure.local_rank = end.local_rank;
    failure.node_rank = end.node_rank;
    failure.host = end.host;
    failure.pid = end.pid;
}

// The rank has failed by itself, but its last words are not known here.
Failure own_failure(const RankEnd& end, const Failure& reporter, const Accusation& accusation) {
    Failure failure{.kind = Failure::Kind::worker_failed};
    place_at(failure, end);
    failure.exit_code = end.exit_code;
    failure.signal = end.signal;
    failure.core_dumped = end.core_dumped;
    failure.unix_time_ms = reporter.unix_time_ms;
    failure.message = fmt::format("rank {} says: {}", reporter.rank, accusation.sentence);
    return failure;
}

Failure laid_on(const RankEnd& end, const Failure& reporter, std::string_view accusation,
                const std::string& testimony) {
    Failure failure = reporter;
    place_at(failure, end);
    failure.witness = reporter.rank;
    failure.accusation = accusation;
    failure.testimony = testimony;
    return failure;
}

// True unless a signal killed the worker that no program sends itself.
bool has_ended_itself(const Failure& failure) {
    return failure.kind == Failure::Kind::worker_failed && (failure.signal == 0 || failure.signal == SIGABRT);
}

std::string first_raised_text(int rank, const std::vector<int>& victims) {
    std::string text = fmt::format("rank {} raised first", rank);
    if (victims.empty()) return text;
    const bool is_one = victims.size() == 1;
    return text + fmt::format("; {} {} then lost {}", is_one ? "rank" : "ranks",
                              number_set_text(ranges_of(victims)),
                              is_one ? "its connection" : "their connections");
}

}  // namespace

std::optional<Accusation> accusation_of(const Failure& failure) {
    if (!has_ended_itself(failure)) return std::nullopt;
    if (!failure.error_message.empty()) return accusation_in_file(failure.error_message);
    std::size_t words = 0;
    for (auto line = failure.last_lines.rbegin(); line != failure.last_lines.rend(); ++line) {
        if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
        if (auto found = find_accusation(*line)) return found;
        if (++words == kLastWords) break;
    }
    FailureReason reason;
    for (const std::string& line : failure.last_lines) reason.note(line);
    for (const std::string& line : reason.lines()) {
        if (auto found = find_accusation(line)) return found;
    }
    return std::nullopt;
}

Failure culprit_of(const Failure& first, const std::vector<const Failure*>& known, const EndOfRank& end_of) {
    const Failure* reporter = &first;
    std::set<int> blamed;
    for (;;) {
        const auto accusation = accusation_of(*reporter);
        if (!accusation || accusation->rank == reporter->rank) return *reporter;
        blamed.insert(reporter->rank);
        const int rank = accusation->rank;
        if (blamed.contains(rank)) return first;
        const auto own = std::find_if(known.begin(), known.end(),
                                      [rank](const Failure* failure) { return failure->rank == rank; });
        if (own != known.end()) {
            const auto further = accusation_of(**own);
            if (is_about_end(accusation->charge) || (further && further->rank != rank)) {
                reporter = *own;
                continue;
            }
        }
        const auto end = end_of(rank);
        if (!end) return *reporter;
        const bool failed = end->manner == RankEnd::Manner::failed;
        return failed && is_about_end(accusation->charge)
                   ? own_failure(*end, *reporter, *accusation)
                   : laid_on(*end, *reporter, report_of(accusation->charge), accusation->sentence);
    }
}

std::string raised_by(const Failure& failure) {
    if (failure.witness >= 0) return failure.accusation;
    RaisedWords raised;
    std::istringstream traceback(failure.traceback);
    for (std::string line; std::getline(traceback, line);) raised.note(line);
    if (!raised.text().empty()) return raised.text();
    if (!failure.error_message.empty())
        return failure.error_message.substr(0, failure.error_message.find('\n'));
    for (const std::string& line : failure.last_lines) raised.note(line);
    if (!raised.text().empty()) return raised.text();
    FailureReason reason;
    for (const std::string& line : failure.last_lines) reason.note(line);
    return reason.lines().empty() ? std::string() : reason.lines().front();
}

bool is_victim(const Failure& failure) {
    return has_ended_itself(failure) && failure.witness < 0 && is_lost_connection(raised_by(failure));
}

Failure first_raised(const Failure& first, const std::vector<const Failure*>& known,
                     const std::vector<int>& raised) {
    if (!has_ended_itself(first) || accusation_of(first)) return first;
    const auto place = [&raised](const Failure& failure) {
        return std::find(raised.begin(), raised.end(), failure.rank) - raised.begin();
    };
    const bool is_ordered = place(first) < std::ssize(raised);
    const Failure* best = nullptr;
    std::vector<int> victims;
    for (const Failure* failure : known) {
        if (is_victim(*failure)) {
            victims.push_back(failure->rank);
        } else if (has_ended_itself(*failure) && !accusation_of(*failure) && !raised_by(*failure).empty()) {
            if (best == nullptr || place(*failure) < place(*best)) best = failure;
        }
    }
    if (best == nullptr || best->rank == first.rank) return first;
    if (!is_victim(first) && !(is_ordered && place(*best) < place(first))) return first;
    Failure chosen = *best;
    if (chosen.message.empty()) chosen.message = first_raised_text(chosen.rank, victims);
    return chosen;
}

Failure raised_before(const RankEnd& end, const std::string& words, const Failure& victim) {
    return laid_on(end, victim, "raised " + words, raised_by(victim));
}

void FirstFailure::contend(int rank) {
    if (!is_suspect(rank)) contenders_.insert(rank);
}

Failure& FirstFailure::tell(int teller, Failure failure) {
    const auto earlier = std::find_if(told_.begin(), told_.end(), [teller](const Told& told) {
        return told.teller == teller && told.failure.kind == Failure::Kind::worker_failed;
    });
    if (earlier == told_.end()) return told_.emplace_back(Told{teller, std::move(failure)}).failure;
    return earlier->failure = std::move(failure);
}

std::optional<Failure> FirstFailure::first(const EndOfRank& end_of) const {
    if (told_.empty()) return std::nullopt;
    const Failure* first = &told_.front().failure;
    if (first->kind != Failure::Kind::worker_failed) return *first;
    std::vector<const Failure*> known;
    for (const Told& told : told_) {
        if (is_before(told.failure, *first)) first = &told.failure;
        known.push_back(&told.failure);
    }
    const Failure culprit = culprit_of(*first, known, end_of);
    return culprit.rank == first->rank ? first_raised(culprit, known, raised_) : culprit;
}

bool FirstFailure::is_before(const Failure& failure, const Failure& first) const {
    const std::size_t place = place_among_suspects(failure.rank);
    const std::size_t place_of_first = place_among_suspects(first.rank);
    if (place != place_of_first) return place < place_of_first;
    const bool was_killed = failure.signal != 0 && failure.signal != SIGABRT && failure.signal != SIGPIPE;
    return is_contender(failure.rank) && was_killed && first.signal == 0;
}

// One that is no suspect stands behind all of them.
std::size_t FirstFailure::place_among_suspects(int rank) const {
    const auto suspect = suspects_.find(rank);
    return suspect == suspects_.end() ? suspects_.size() : suspect->second;
}

}  // namespace job
}  // namespace ddprun
