#include "rendezvous/job/raised_words.hpp"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <utility>

#include "rendezvous/job/failure_reason.hpp"

namespace ddprun {
inline namespace job {
namespace {

constexpr std::string_view kStackHead = "Traceback (most recent call last)";
constexpr std::string_view kChains[] = {"During handling of the above exception",
                                        "The above exception was the direct cause"};
constexpr std::string_view kIgnored[] = {"Exception ignored in", "Exception in thread"};
constexpr std::string_view kInterrupt = "KeyboardInterrupt";
constexpr std::string_view kTerminate = "terminate called ";
constexpr std::string_view kWhat = "what():";
constexpr std::string_view kMessages[] = {"Fatal Python error: ", "panic: "};
constexpr std::string_view kThread = "thread '";
constexpr std::string_view kPanicked = "panicked at";

// In lower case; each is what a library says whose peer has gone.
constexpr std::string_view kLostConnection[] = {"connection reset",
                                                "connectionreset",
                                                "connection was reset",
                                                "connection closed",
                                                "connection was closed",
                                                "connection abort",
                                                "connectionabort",
                                                "connection refused",
                                                "connectionrefused",
                                                "connection lost",
                                                "lost connection",
                                                "broken pipe",
                                                "brokenpipe",
                                                "eoferror",
                                                "incompletereaderror",
                                                "distnetworkerror",
                                                "ncclremoteerror",
                                                "remote process exited",
                                                "endpoint is not connected"};

bool starts_with_any(std::string_view line, const auto& words) {
    return std::any_of(std::begin(words), std::end(words),
                       [line](std::string_view word) { return line.starts_with(word); });
}

}  // namespace

void RaisedWords::note(std::string_view line) {
    line = without_rank(line);
    const auto indent = line.find_first_not_of(" \t\r");
    if (indent == std::string_view::npos) return;
    if (line.starts_with(kStackHead)) return begin_stack();
    is_ignored_ = starts_with_any(line, kIgnored);
    is_chained_ = starts_with_any(line, kChains);
    switch (place_) {
        case Place::outside: return begin_message(line);
        case Place::in_stack:
            if (indent > 0) return;
            if (!line.starts_with(kInterrupt)) text_ = line.substr(0, kMaxText);
            break;
        case Place::before_what:
            if (const auto what = line.find(kWhat); what != std::string_view::npos)
                text_ = line.substr(std::min(line.find_first_not_of(' ', what + kWhat.size()), line.size()),
                                    kMaxText);
            break;
    }
    place_ = Place::outside;
}

void RaisedWords::begin(Place place, std::string_view text) {
    place_ = place;
    text_ = text.substr(0, kMaxText);
    ++count_;
}

void RaisedWords::begin_stack() {
    const bool is_chained = std::exchange(is_chained_, false) && count_ > 0;
    const bool is_ignored = std::exchange(is_ignored_, false);
    place_ = Place::outside;
    if (!is_chained && !is_ignored) begin(Place::in_stack, {});
}

void RaisedWords::begin_message(std::string_view line) {
    if (line.starts_with(kTerminate)) return begin(Place::before_what, line);
    const bool is_panic = line.starts_with(kThread) && line.find(kPanicked) != std::string_view::npos;
    if (is_panic || starts_with_any(line, kMessages)) begin(Place::outside, line);
}

bool is_lost_connection(std::string_view words) {
    std::string lower(words);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
    return std::any_of(std::begin(kLostConnection), std::end(kLostConnection),
                       [&lower](std::string_view phrase) { return lower.find(phrase) != std::string::npos; });
}

}  // namespace job
}  // namespace ddprun
