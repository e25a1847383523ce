#include "integrations/python/src/jax/handlers.h"

#include <memory>
#include <string>

#include "integrations/python/src/jax/exchange.h"
#include "xla/ffi/api/ffi.h"

namespace tally::python {
namespace {

namespace ffi = xla::ffi;

using Number = ffi::BufferR0<ffi::U64>;

// As str(tally.Error).
std::string text_of(tally_status status, const std::string& message) {
  return std::string(tally_status_name(status)) + ": " + message;
}

ffi::Error error_of(const Failure& failure) {
  return {ffi::ErrorCode::kInternal, text_of(failure.status, failure.what())};
}

tally_type type_of(ffi::DataType type) {
  switch (type) {
    case ffi::F32:
      return TALLY_F32;
    case ffi::F64:
      return TALLY_F64;
    case ffi::F16:
      return TALLY_F16;
    case ffi::BF16:
      return TALLY_BF16;
    case ffi::S8:
      return TALLY_I8;
    case ffi::U8:
      return TALLY_U8;
    case ffi::S32:
      return TALLY_I32;
    case ffi::S64:
      return TALLY_I64;
    default:
      throw Failure(TALLY_UNSUPPORTED, "XLA's type " + std::to_string(static_cast<int>(type)) +
                                           " is not one of tally's");
  }
}

std::shared_ptr<Exchange> exchange() {
  auto found = current_exchange();
  if (!found) throw Failure(TALLY_INVALID_ARGUMENT, "no session: call tally.jax.init() first");
  return found;
}

ffi::Error start(ffi::RunId run, ffi::Token, ffi::AnyBuffer input, ffi::Result<ffi::Token>,
                 ffi::Result<Number> number, std::int32_t kind, std::int32_t op, std::int32_t root,
                 std::int32_t ranks, std::int64_t count) {
  try {
    const auto session = exchange();
    if (session->communicator().ranks() != static_cast<std::uint32_t>(ranks)) {
      throw Failure(TALLY_INVALID_ARGUMENT,
                    "the function was traced for " + std::to_string(ranks) +
                        " ranks and the session has " +
                        std::to_string(session->communicator().ranks()) +
                        ": call jax.clear_caches() before tally.jax.init()");
    }
    Request request;
    request.kind = static_cast<tally_kind>(kind);
    request.type = type_of(input.element_type());
    request.op = static_cast<tally_op>(op);
    request.count = static_cast<std::uint64_t>(count);
    request.in = input.untyped_data();
    request.root = static_cast<std::uint32_t>(root);
    *number->typed_data() = session->start(request, run.run_id);
    return ffi::Error::Success();
  } catch (const Failure& failure) {
    return error_of(failure);
  }
}

ffi::Future finish(Number number, ffi::Result<ffi::AnyBuffer> output) {
  ffi::Promise promise;
  ffi::Future future(promise);
  try {
    exchange()->finish(*number.typed_data(), output->untyped_data(),
                       [promise](const Outcome& outcome) mutable {
                         if (outcome.status == TALLY_OK) return promise.SetAvailable();
                         promise.SetError(error_of(outcome.failure()));
                       });
  } catch (const Failure& failure) {
    promise.SetError(error_of(failure));
  }
  return future;
}

XLA_FFI_DEFINE_HANDLER(start_handler, start,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::RunId>()
                           .Arg<ffi::Token>()
                           .Arg<ffi::AnyBuffer>()
                           .Ret<ffi::Token>()
                           .Ret<Number>()
                           .Attr<std::int32_t>("kind")
                           .Attr<std::int32_t>("op")
                           .Attr<std::int32_t>("root")
                           .Attr<std::int32_t>("ranks")
                           .Attr<std::int64_t>("count"));
XLA_FFI_DEFINE_HANDLER(finish_handler, finish,
                       ffi::Ffi::Bind().Arg<Number>().Ret<ffi::AnyBuffer>());

}  // namespace

XLA_FFI_Handler* const kStart = start_handler;
XLA_FFI_Handler* const kFinish = finish_handler;

}  // namespace tally::python
