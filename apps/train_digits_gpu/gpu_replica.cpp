#include "apps/train_digits_gpu/gpu_replica.hpp"

#include <algorithm>
#include <array>
#include <thread>

#include "apps/train_digits_gpu/device_steps.hpp"
#include "collectives/error.hpp"

namespace ddprun::inline app {
namespace {

void require(const char* trouble) {
    if (trouble != nullptr)
        throw CollectiveError(CollectiveErrorCode::system, std::string("CUDA: ") + trouble);
}

float* floats(const CudaMemory& memory) { return reinterpret_cast<float*>(memory.data()); }

}  // namespace

GpuReplica::GpuReplica(const Digits& train, const TrainingPlan& plan, int rank, int world_size,
                       std::shared_ptr<const CudaPrimaryContext> context)
    : images_(train, plan, rank, world_size),
      plan_(plan),
      parameters_count_(shape_of(plan).parameter_count()),
      most_images_((plan.batch_size + static_cast<std::size_t>(world_size) - 1) /
                   static_cast<std::size_t>(world_size)),
      host_pixels_(most_images_ * kImagePixels),
      host_labels_(most_images_),
      context_(std::move(context)),
      parameters_(context_, parameters_count_ * sizeof(float)),
      velocity_(context_, parameters_count_ * sizeof(float)),
      sums_(context_, (parameters_count_ + 2) * sizeof(float)),
      epoch_(context_, 2 * sizeof(float)),
      pixels_(context_, host_pixels_.size() * sizeof(float)),
      labels_(context_, host_labels_.size() * sizeof(std::int32_t)),
      activations_(context_, most_images_ * (2 * plan.hidden + kDigitClasses + 2) * sizeof(float)) {
    const CudaScope scope(*context_);
    context_->driver().require(context_->driver().stream_create(&stream_, kCudaStreamDefault),
                               "making a CUDA stream");
    const std::vector<float> zeros(parameters_count_, 0.0f);
    parameters_.copy_from(initial_parameters(shape_of(plan), plan.seed).data(), parameters_.size());
    velocity_.copy_from(zeros.data(), velocity_.size());
}

GpuReplica::~GpuReplica() { context_->driver().stream_destroy(stream_); }

void GpuReplica::begin_epoch(int epoch) {
    wait_for_device();
    images_.begin_epoch(epoch);
    epoch_images_ = 0;
    const std::array<float, 2> zeros{};
    epoch_.copy_from(zeros.data(), epoch_.size());
}

std::size_t GpuReplica::gather_images(std::size_t step) {
    std::size_t images = 0;
    images_.visit(step, [&](std::span<const float, kImagePixels> image, std::uint8_t label) {
        std::copy(image.begin(), image.end(),
                  host_pixels_.begin() + static_cast<std::ptrdiff_t>(images * kImagePixels));
        host_labels_[images++] = label;
    });
    return images;
}

void GpuReplica::enqueue_compute(std::size_t step) {
    DeviceBatch batch;
    batch.images = gather_images(step);
    pixels_.copy_from(host_pixels_.data(), batch.images * kImagePixels * sizeof(float));
    labels_.copy_from(host_labels_.data(), batch.images * sizeof(std::int32_t));
    batch.inputs = kImagePixels;
    batch.hidden = plan_.hidden;
    batch.outputs = kDigitClasses;
    batch.pixels = floats(pixels_);
    batch.labels = reinterpret_cast<const std::int32_t*>(labels_.data());
    batch.parameters = floats(parameters_);
    batch.hidden_values = floats(activations_);
    batch.hidden_gradients = batch.hidden_values + most_images_ * batch.hidden;
    batch.output_gradients = batch.hidden_gradients + most_images_ * batch.hidden;
    batch.losses = batch.output_gradients + most_images_ * batch.outputs;
    batch.hits = batch.losses + most_images_;
    batch.sums = floats(sums_);
    const CudaScope scope(*context_);
    require(enqueue_gradients(batch, stream_));
}

void GpuReplica::enqueue_apply(std::size_t step) {
    epoch_images_ += images_.images_in(step);
    DeviceUpdate update;
    update.parameter_count = parameters_count_;
    update.scale = 1.0f / static_cast<float>(images_.images_in(step));
    update.momentum = plan_.momentum;
    update.learning_rate = plan_.learning_rate;
    update.sums = floats(sums_);
    update.velocity = floats(velocity_);
    update.parameters = floats(parameters_);
    update.epoch = floats(epoch_);
    const CudaScope scope(*context_);
    require(enqueue_update(update, stream_));
}

void GpuReplica::wait_for_device() const {
    const CudaScope scope(*context_);
    // The steps take microseconds, and what waits for other ranks has been waited for by its Work.
    while (context_->driver().stream_query(stream_) == CudaResult::not_ready) std::this_thread::yield();
}

EpochResult GpuReplica::epoch_result() const {
    wait_for_device();
    std::array<float, 2> sums{};
    epoch_.copy_to(sums.data(), epoch_.size());
    if (epoch_images_ == 0) return {};
    const auto images = static_cast<double>(epoch_images_);
    return {.loss = static_cast<double>(sums[0]) / images, .accuracy = static_cast<double>(sums[1]) / images};
}

std::vector<float> GpuReplica::parameters() const {
    wait_for_device();
    std::vector<float> values(parameters_count_);
    parameters_.copy_to(values.data(), parameters_.size());
    return values;
}

}  // namespace ddprun::inline app
