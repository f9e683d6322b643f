#include "collectives/liveness/lifeline_state.hpp"

#include <algorithm>
#include <cstring>

#include "rendezvous/codec/binary_codec.hpp"

namespace ddprun {
inline namespace detail {

// The notice as it travels, which is not the order of the struct.
BOOST_DESCRIBE_STRUCT(Call, (), (operation, type, reduce, compression, root, count, sequence))
BOOST_DESCRIBE_STRUCT(LeftNotice, (), (rank, sequence))
BOOST_DESCRIBE_STRUCT(InquiryNotice, (), (inquiry, sequence))
BOOST_DESCRIBE_STRUCT(ProgressNotice, (), (rank, inquiry, call, asked))
BOOST_DESCRIBE_STRUCT(QuestionNotice, (), (rank, round, call))

namespace {

constexpr std::size_t kPrefixSize = 4;

std::string payload_of(const Verdict& verdict) {
    BinaryWriter<PlainNumbers> write;
    const std::size_t culprits = std::min(verdict.culprits.size(), kMaxNoticeCulprits);
    write(static_cast<std::uint8_t>(verdict.code));
    write(static_cast<std::uint8_t>(culprits));
    for (std::size_t i = 0; i < culprits; ++i) write(verdict.culprits[i]);
    return write.take().append(std::string_view(verdict.text).substr(0, kMaxNoticeText));
}

bool read_payload(std::string_view payload, Verdict& verdict) {
    BinaryReader<PlainNumbers> read(payload);
    std::uint8_t code = 0;
    std::uint8_t culprits = 0;
    read(code), read(culprits);
    for (int i = 0; i < culprits; ++i) read(verdict.culprits.emplace_back());
    verdict.code = static_cast<CollectiveErrorCode>(code);
    verdict.text = read.rest();
    return !read.failed() && code <= static_cast<std::uint8_t>(CollectiveErrorCode::system);
}

template <Described Message>
std::string payload_of(const Message& message) {
    return to_bytes<PlainNumbers>(message);
}

template <Described Message>
bool read_payload(std::string_view payload, Message& message) {
    return from_bytes<PlainNumbers>(payload, message);
}

std::optional<Notice> notice_of(std::uint8_t kind, std::string_view payload) {
    std::optional<Notice> notice;
    boost::mp11::mp_for_each<boost::mp11::mp_iota_c<std::variant_size_v<Notice>>>([&](auto index) {
        std::variant_alternative_t<index, Notice> message;
        if (kind == index && read_payload(payload, message)) notice = std::move(message);
    });
    return notice;
}

}  // namespace

std::string encode(const Notice& notice) {
    const std::string payload = std::visit([](const auto& n) { return payload_of(n); }, notice);
    BinaryWriter<PlainNumbers> write;
    write(static_cast<std::uint8_t>(notice.index()));
    write(std::uint8_t{0});
    write(static_cast<std::uint16_t>(payload.size()));
    return write.take() + payload;
}

void NoticeReader::add(std::span<const std::byte> bytes) {
    if (!broken_) bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<Notice> NoticeReader::next() {
    if (broken_ || bytes_.size() < kPrefixSize) return std::nullopt;
    const auto kind = static_cast<std::uint8_t>(bytes_[0]);
    std::uint16_t length = 0;
    std::memcpy(&length, bytes_.data() + 2, sizeof(length));
    if (length > kMaxNoticePayload) {
        broken_ = true;
        return std::nullopt;
    }
    if (bytes_.size() < kPrefixSize + length) return std::nullopt;
    auto notice = notice_of(kind, std::string_view(bytes_).substr(kPrefixSize, length));
    bytes_.erase(0, kPrefixSize + length);
    broken_ = !notice;
    return notice;
}

LifelineState::LifelineState(int rank, int world_size, bool own_numbers)
    : rank_(rank), own_numbers_(own_numbers), peers_(static_cast<std::size_t>(world_size)) {}

LifelineState::Sendings LifelineState::heard(const Notice& notice, int from) {
    return std::visit([&](const auto& message) { return take(message, from); }, notice);
}

LifelineState::Sendings LifelineState::take(const QuestionNotice& question, int from) {
    if (verdict_ || !is_rank(question.rank) || !is_collective(question.call)) return {};
    Memory& memory = memory_of(question.call);
    const auto differs = [&](const Call& known) {
        return known.sequence == question.call.sequence && known != question.call;
    };
    if (differs(memory.call))
        return disagreement(question, mismatch_verdict(rank_, memory.call, question.rank, question.call));
    // Two questions meet: neither goes any further, so they are compared here.
    const QuestionNotice& heard = memory.question;
    if (differs(heard.call))
        return disagreement(question, mismatch_verdict(heard.rank, heard.call, question.rank, question.call));
    if (heard.call.sequence > question.call.sequence) return {};
    if (heard.call.sequence == question.call.sequence && heard.round >= question.round) return {};
    memory.question = question;
    return {{question, from}};
}

LifelineState::Sendings LifelineState::disagreement(const QuestionNotice& question,
                                                    const Verdict& otherwise) {
    const std::uint64_t sequence = question.call.sequence;
    if (suspected_ != sequence) {
        suspected_round_ = question.round;
        return suspect(sequence);
    }
    if (question.round < suspected_round_ + kQuestionsToJudge) return {};
    return conclude(sequence, otherwise);
}

LifelineState::Sendings LifelineState::take(const Verdict& verdict, int from) {
    if (verdict_) return {};
    verdict_ = verdict;
    return {{verdict, from}};
}

LifelineState::Sendings LifelineState::take(const LeftNotice& left, int from) {
    if (!is_rank(left.rank) || left.rank == rank_) return {};
    auto& peer = peers_[static_cast<std::size_t>(left.rank)];
    if (peer.left_after) return {};
    peer.left_after = left.sequence;
    ++left_;
    return judged({{left, from}});
}

LifelineState::Sendings LifelineState::take(const InquiryNotice& inquiry, int from) {
    // One of two ranks that ask at the same time may want to know more.
    if (std::pair(inquiry.inquiry, inquiry.sequence) <= std::pair(inquiry_, asked_)) return {};
    inquiry_ = inquiry.inquiry;
    asked_ = inquiry.sequence;
    owed_ = asked_ > call_.sequence ? asked_ : 0;
    Sendings sendings{{inquiry, from}};
    for (auto& answer : answer_now()) sendings.push_back(std::move(answer));
    return sendings;
}

LifelineState::Sendings LifelineState::answer() {
    owed_ = 0;
    return judged(answer_now());
}

LifelineState::Sendings LifelineState::answer_now() {
    auto& self = peers_[static_cast<std::size_t>(rank_)];
    self.answered = inquiry_;
    self.call = call_;
    self.asked = remembered(asked_);
    return {{ProgressNotice{rank_, inquiry_, self.call, self.asked}, -1}};
}

LifelineState::Sendings LifelineState::take(const ProgressNotice& progress, int from) {
    if (!is_rank(progress.rank)) return {};
    auto& peer = peers_[static_cast<std::size_t>(progress.rank)];
    const bool says_more = progress.inquiry == peer.answered && progress.asked.sequence > peer.asked.sequence;
    if (progress.inquiry <= peer.answered && !says_more) return {};
    peer.answered = progress.inquiry;
    peer.call = progress.call;
    peer.asked = progress.asked;
    return judged({{progress, from}});
}

LifelineState::Sendings LifelineState::lost(int rank, std::string_view how) {
    if (verdict_ || left_after(rank)) return {};
    return declare(death_verdict(rank, how));
}

LifelineState::Sendings LifelineState::declare(const Verdict& verdict) {
    // One that another rank has declared, too, says it already.
    if (!own_numbers_ || verdict.text.starts_with(kOwnNumbers)) return take(verdict, -1);
    return take(Verdict{verdict.code, verdict.culprits, std::string(kOwnNumbers) + verdict.text}, -1);
}

LifelineState::Sendings LifelineState::leave() {
    peers_[static_cast<std::size_t>(rank_)].left_after = call_.sequence;
    return judged({{LeftNotice{rank_, call_.sequence}, -1}});
}

LifelineState::Sendings LifelineState::inquire() { return take(InquiryNotice{inquiry_ + 1}, -1); }

LifelineState::Sendings LifelineState::suspect(std::uint64_t sequence) {
    if (verdict_ || suspected_ == sequence) return {};
    suspected_ = sequence;
    return judged(take(InquiryNotice{inquiry_ + 1, sequence}, -1));
}

LifelineState::Sendings LifelineState::conclude(std::uint64_t sequence, const Verdict& otherwise) {
    return declare(judge_disagreement(stands(sequence), sequence, true).value_or(otherwise));
}

LifelineState::Sendings LifelineState::judged(Sendings sendings) {
    if (verdict_ || suspected_ == 0) return sendings;
    const auto verdict = judge_disagreement(stands(suspected_), suspected_, false);
    if (!verdict) return sendings;
    for (auto& sending : declare(*verdict)) sendings.push_back(std::move(sending));
    return sendings;
}

std::vector<Stand> LifelineState::stands(std::uint64_t sequence) const {
    std::vector<Stand> stands(peers_.size());
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        const Peer& peer = peers_[i];
        stands[i].left_after = peer.left_after;
        if (peer.asked.sequence == sequence) stands[i].call = peer.asked;
        if (peer.answered == inquiry_) stands[i].last = peer.call;
    }
    return stands;
}

LifelineState::Sendings LifelineState::ask(std::uint32_t round) {
    return take(QuestionNotice{rank_, round, call_}, -1);
}

std::vector<Notice> LifelineState::for_new_neighbour() const {
    std::vector<Notice> notices;
    if (verdict_) notices.emplace_back(*verdict_);
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (peers_[i].left_after) {
            notices.emplace_back(LeftNotice{static_cast<std::int32_t>(i), *peers_[i].left_after});
        }
    }
    return notices;
}

std::optional<std::uint64_t> LifelineState::left_after(int rank) const {
    return is_rank(rank) ? peers_[static_cast<std::size_t>(rank)].left_after : std::nullopt;
}

int LifelineState::left_before(std::uint64_t sequence) const {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (peers_[i].left_after && *peers_[i].left_after < sequence) return static_cast<int>(i);
    }
    return -1;
}

std::vector<std::optional<Call>> LifelineState::progress() const {
    std::vector<std::optional<Call>> answers(peers_.size());
    for (std::size_t i = 0; i < peers_.size(); ++i) {
        if (peers_[i].answered == inquiry_) answers[i] = peers_[i].call;
    }
    return answers;
}

bool LifelineState::all_answered() const {
    return std::all_of(peers_.begin(), peers_.end(),
                       [&](const Peer& peer) { return peer.left_after || peer.answered == inquiry_; });
}

}  // namespace detail
}  // namespace ddprun
